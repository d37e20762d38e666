"""URLs that try to reach this machine, or another that is not public, past a guard that lets only public ones through.

`{p}` is the port of a server on loopback that must never hear of them. A name resolves as `FLIPS` says, all others to
loopback.
"""

from __future__ import annotations

from collections.abc import Iterator

PUBLIC = "93.184.216.34"

# Addresses of this machine and of networks within, as they stand in a URL.
IPV4 = [
    "127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.0.0.1", "10.0.0.1", "10.255.255.255",
    "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.1", "169.254.169.254", "169.254.170.2", "169.254.0.1",
    "100.64.0.1", "100.100.100.200", "100.127.255.254", "192.0.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1",
    "198.19.255.254", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "192.88.99.1",
]  # fmt: skip

# The same, as C libraries and browsers read them too: octal, hexadecimal, fewer parts, one number, too large.
ODD_IPV4 = [
    "2130706433", "017700000001", "0x7f000001", "0x7F000001", "0X7f000001", "0x7f.1", "0x7f.0.1", "0x7f.0.0.1",
    "0x7f.0x0.0x0.0x1", "0177.0.0.1", "0177.0.0.01", "0177.1", "00000177.0.0.1", "127.1", "127.0.1", "127.0.0.01",
    "127.0.0.001", "127.00.00.01", "127.000.000.001", "127.0.0.0x1", "127.0x0.1", "127.65535", "127.16777215", "0",
    "00", "0x0",
    "0x", "1", "4294967295", "4294967296", "6425673729", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662", "425.510.425.510", "256.0.0.1", "127.0.0.257",
    "127.0.0.1.1",
    "127..1", "127.0.0.", "127.0.0.1..", ".127.0.0.1", "3232235521", "0xc0a80001", "167772161", "0x0a000001",
    "012.0.0.1",
    "10.1", "192.168.1", "1.0x7f", "example.0x7f000001", "example.1", "-127.0.0.1", "+127.0.0.1", "127.0.0.1-",
    "0x7f000001.",
    "2130706433.", "127.1.", "1e9", "127.0.0.1e0",
]  # fmt: skip

IPV6 = [
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::0:1]", "[0::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::FFFF:7F00:0001]", "[0:0:0:0:0:ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]",
    "[::7f00:1]", "[::ffff:0:127.0.0.1]", "[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
    "[::ffff:0.0.0.0]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]", "[2002:7f00:0001::1]", "[2002:a9fe:a9fe::]", "[2001:0:7f00:1::]",
    "[2001:0:53aa:64c:0:fbff:80ff:fffe]",
    "[fe80::1]", "[fe80::1%25lo]", "[fe80::1%lo]", "[::1%25lo]", "[::1%lo]", "[::1%251]", "[fc00::1]", "[fd00::1]",
    "[fd00:ec2::254]",
    "[fec0::1]", "[ff01::1]", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]", "[5f00::1]", "[2001:10::1]",
    "[::2]",
    "::1", "[::1", "::1]", "[[::1]]", "[]", "[:]", "[::1].example.com", "[127.0.0.1]", "[localhost]", "[v1.::1]",
    "[::1]x",
    "[0x7f000001]", "[::ffff:0x7f.1]", "[::ffff:127.1]", "[::ffff:127.0.0.1%lo]", "[::ffff:0177.0.0.1]",
]  # fmt: skip

# Names that lead to loopback, whatever they look like.
LOCAL_NAMES = [
    "localhost", "LOCALHOST", "LocalHost", "localhost.", "localhost.localdomain", "ip6-localhost", "localtest.me",
    "a.b.localtest.me", "127.0.0.1.nip.io", "127-0-0-1.sslip.io", "7f000001.nip.io", "spoofed.example.com",
    "customer1.app.localhost", "metadata.google.internal", "metadata", "instance-data", "kubernetes.default.svc",
    "xn--local-host.example", "0x7f000001.example.com", "loopback.example.com.", "a" * 63 + ".example.com",
    "_dmarc.example.com", "lvh.me", "vcap.me", "bit.example",
]  # fmt: skip

# Who is the host here? Two readers might disagree.
CONFUSING = [
    "http://example.com@127.0.0.1:{p}/", "http://127.0.0.1:{p}@example.com/", "http://user:pw@127.0.0.1:{p}/",
    "http://user@localhost:{p}/", "http://@127.0.0.1:{p}/", "http://:@127.0.0.1:{p}/", "http://:pw@localhost:{p}/",
    "http://example.com:80@127.0.0.1:{p}/", "http://example.com%40127.0.0.1:{p}/",
    "http://example.com\\@127.0.0.1:{p}/",
    "http://127.0.0.1:{p}\\@example.com/", "http://127.0.0.1:{p}\\.example.com/", "http:\\\\127.0.0.1:{p}\\",
    "http://example.com#@127.0.0.1:{p}/", "http://127.0.0.1:{p}#@example.com/", "http://127.0.0.1:{p}?@example.com/",
    "http://example.com?@127.0.0.1:{p}/", "http://127.0.0.1:{p}/@example.com", "http://localhost:{p}:80/",
    "http://localhost:80:{p}/", "http://localhost:+{p}/", "http://localhost: {p}/", "http://localhost:0{p}/",
    "http://localhost:{p}a/", "http://localhost:-{p}/", "http://localhost:65536{p}/", "http://localhost:/",
    "http://:{p}/",
    "http:///127.0.0.1:{p}/", "http:////127.0.0.1:{p}/", "http:/127.0.0.1:{p}/", "http:127.0.0.1:{p}/",
    "//127.0.0.1:{p}/",
    "127.0.0.1:{p}", "localhost:{p}/", "http://", "http://?", "http://#", "", "/", "http://[::1]@127.0.0.1:{p}/",
    "http://127.0.0.1:{p}%2f@example.com", "http://127.0.0.1%00.example.com:{p}/", "http://127.0.0.1%0d%0a:{p}/",
    "http://%6c%6f%63%61%6c%68%6f%73%74:{p}/", "http://%31%32%37.0.0.1:{p}/", "http://127%2e0%2e0%2e1:{p}/",
    "http://127.0.0.1%2523:{p}/", "http://local%68ost:{p}/", "http://loc alhost:{p}/", "http://localhost\t:{p}/",
    " http://127.0.0.1:{p}/", "http://127.0.0.1:{p}/ ", "\thttp://127.0.0.1:{p}/", "ht\ntp://127.0.0.1:{p}/",
    "http://127.0.0.1:{p}/\r\nHost: example.com", "http://127.0.0.1\r\n:{p}/", "http://127.0.0.1\0:{p}/",
    "http://example.com\n127.0.0.1:{p}/", "http://127.0.0.1\u2028:{p}/", "http://loc\u00adalhost:{p}/",
    "http://localhost\u200b:{p}/", "http://127\u30020\u30020\u30021:{p}/", "http://127\uff0e0\uff0e0\uff0e1:{p}/",
    "http://\uff11\uff12\uff17.0.0.1:{p}/", "http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460:{p}/",
    "http://\u0661\u0662\u0667.0.0.1:{p}/", "http://\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1:{p}/",
    "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3:{p}/",
    "http://\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54:{p}/", "http://l\u043ecalhost:{p}/",
    "http://\u017flocalhost:{p}/",
    "http://127.0.0.1\uff0fexample.com:{p}/", "http://example.com\uff20127.0.0.1:{p}/",
    "http://example.com\u2100127.0.0.1:{p}/",
    "http://[::1]%2f:{p}/", "http://127.0.0.1;example.com:{p}/", "http://127.0.0.1,example.com:{p}/",
    "http://127.0.0.1&example.com:{p}/",
    "http://127.0.0.1|example.com:{p}/", "http://{{127.0.0.1}}:{p}/", "http://127.0.0.1'example.com:{p}/",
    "http://*:{p}/",
    "http://$(hostname):{p}/", "http://`hostname`:{p}/", "http://" + "a" * 64 + ".example.com:{p}/",
    "http://" + "a." * 127 + "com:{p}/",
    "http://-localhost:{p}/", "http://localhost-:{p}/", "http://.localhost:{p}/", "http://localhost..:{p}/",
    "http://.:{p}/", "http://..:{p}/",
    "http://127.0.0.1:{p}/" + "a" * 3_000,
]  # fmt: skip

# Not the web at all.
SCHEMES = [
    "ftp://127.0.0.1:{p}/", "file:///etc/passwd", "file://localhost/etc/passwd", "gopher://127.0.0.1:{p}/_GET",
    "dict://127.0.0.1:{p}/",
    "ldap://127.0.0.1:{p}/", "tftp://127.0.0.1:{p}/", "ws://127.0.0.1:{p}/", "wss://127.0.0.1:{p}/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/", "jar:http://127.0.0.1:{p}/!/", "view-source:http://127.0.0.1:{p}/",
    "data:text/plain,x",
    "javascript:fetch('http://127.0.0.1:{p}/')", "url:http://127.0.0.1:{p}/", "netdoc:///etc/passwd",
    "httpss://127.0.0.1:{p}/",
    "http s://127.0.0.1:{p}/", "h\u0442tp://127.0.0.1:{p}/",
]  # fmt: skip

# Answers to the first look, the second, and so on; the last one for good.
FLIPS: dict[str, list[list[str]]] = {
    "rebind.example": [[PUBLIC], ["127.0.0.1"]],
    "rebind6.example": [[PUBLIC], ["::1"]],
    "slow-rebind.example": [[PUBLIC], [PUBLIC], ["127.0.0.1"]],
    "back-and-forth.example": [["127.0.0.1"], [PUBLIC], ["127.0.0.1"]],
    "both.example": [[PUBLIC, "127.0.0.1"]],
    "both-the-other-way.example": [["127.0.0.1", PUBLIC]],
    "mixed-families.example": [[PUBLIC, "::1"]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "mapped-last.example": [[PUBLIC, "::ffff:7f00:1"]],
    "nat64.example": [["64:ff9b::7f00:1"]],
    "six-to-four.example": [["2002:7f00:1::"]],
    "zone.example": [["fe80::1%lo"]],
    "loopback-zone.example": [["::1%lo"]],
    "unspecified.example": [["0.0.0.0"]],
    "unspecified6.example": [["::"]],
    "metadata.example": [["169.254.169.254"]],
    "metadata6.example": [["fd00:ec2::254"]],
    "carrier.example": [["100.64.0.1"]],
    "odd-answer.example": [["2130706433"]],
    "name-as-answer.example": [["localhost"]],
    "empty-answer.example": [[""]],
    "no-answer.example": [[]],
}


def urls(port: int) -> Iterator[str]:
    """All of them, for a server at that port."""
    for host in (*IPV4, *ODD_IPV4, *IPV6, *LOCAL_NAMES, *FLIPS):
        yield f"http://{host}:{port}/"
    for template in (*CONFUSING, *SCHEMES):
        yield template.replace("{p}", str(port))
