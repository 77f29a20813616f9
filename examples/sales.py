# SPDX-License-Identifier: Apache-2.0
"""The sandbox as a tool of an agent that stays outside: look at /data/sales.csv, analyse last year's trend in several steps,
report, destroy the sandbox. Needs: pip install e2b; eval "$(atoll env)". The same as sales.mjs."""
import pathlib

from e2b import Sandbox

MONTHLY = '''
import csv, collections, json
months = collections.OrderedDict()
for row in csv.DictReader(open("/data/sales.csv")):
    months[row["date"][:7]] = months.get(row["date"][:7], 0) + float(row["revenue"])
json.dump(months, open("/data/monthly.json", "w"))
for month, revenue in months.items():
    print(f"{month}  {revenue:9.2f}  " + "#" * round(revenue / 400))
'''
TREND = '''
import json
values = list(json.load(open("/data/monthly.json")).values())
n, mean = len(values), sum(values) / len(values)
slope = sum((i - (n - 1) / 2) * (v - mean) for i, v in enumerate(values)) / sum((i - (n - 1) / 2) ** 2 for i in range(n))
print(f"Revenue grew by {slope:.0f} a month on average, {100 * (values[-1] / values[0] - 1):.0f} % from January to December.")
'''

sandbox = Sandbox.create(timeout=120, metadata={"task": "sales-trend"})
try:
    def step(what, command):
        print(f"- {what}\n    " + sandbox.commands.run(command).stdout.rstrip().replace("\n", "\n    "))

    sandbox.commands.run("sudo mkdir -p /data && sudo chown user /data")
    sandbox.files.write("/data/sales.csv", pathlib.Path(__file__).with_name("sales.csv").read_text())
    step("what is there", "head -n 3 /data/sales.csv; wc -l /data/sales.csv")
    sandbox.files.write("/home/user/monthly.py", MONTHLY)
    step("revenue by month", "python3 monthly.py")
    sandbox.files.write("/home/user/trend.py", TREND)
    step("trend", "python3 trend.py")
finally:
    sandbox.kill()
