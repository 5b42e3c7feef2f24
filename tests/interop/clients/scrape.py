"""Reads a scrape from standard input with the parser of Prometheus's own Python client, and prints its samples as JSON.

The parser is strict: it ends with an error at the first line that OpenMetrics does not allow.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

print(
    json.dumps(
        [
            {"type": family.type, "name": sample.name, "labels": sample.labels, "value": sample.value}
            for family in text_string_to_metric_families(sys.stdin.read())
            for sample in family.samples
        ]
    )
)
