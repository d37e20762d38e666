"""Addresses that a request from us may go to."""

from __future__ import annotations

import pytest

from holdfast.rules.addresses import is_public


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1",
                                     "2620:4f:8000::1", "3ffd::1"])  # fmt: skip
def test_the_open_internet_is_allowed(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "192.0.0.192", "198.18.0.1", "192.0.2.1",
        "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "192.88.99.1",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
        "2002:7f00:1::", "2001:0:7f00:1::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
        "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "5f00::1", "3fff::1",
        "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "::8.8.8.8", "1::1", "1fff::1",
        "4000::1", "8000::1", "c000::1", "e000::1", "fe00::1", "200::1", "3ffe::1", "2001:10::1", "2001:20::1",
        "2606:4700:4700::1111%eth0",
        "", "localhost", "1.2.3", "0x7f.1", "1.1.1.1 ", "8.8.8.8%eth0",
    ],
)  # fmt: skip
def test_everything_else_is_refused(address: str) -> None:
    assert not is_public(address)
