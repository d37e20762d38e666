"""The page on metrics says what the code says."""

from __future__ import annotations

import re

from holdfast.contrib.prometheus import FAMILIES
from holdfast.model.stats import COUNTERS, LABELS, LATENCIES
from holdfast.worker.running.runs import _ENDS
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")


def test_every_metric_is_on_the_page_with_its_kind_labels_and_meaning() -> None:
    rows = re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \| (.*?) ?\| (.+) \|$", PAGE, re.MULTILINE)
    shown = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows}
    assert shown == {family.name: (family.kind, family.labels, family.help) for family in FAMILIES}


def test_every_value_of_a_label_is_on_the_page() -> None:
    for value in (*LABELS, *COUNTERS, *LATENCIES, *_ENDS.values()):
        assert f"`{value}`" in PAGE


def test_every_metric_of_opentelemetry_is_on_the_page() -> None:
    source = (ROOT / "src/holdfast/contrib/otel.py").read_text("utf-8")
    for name in re.findall(r'create_\w+\("([\w.]+)"', source):
        assert f"`{name}`" in PAGE
