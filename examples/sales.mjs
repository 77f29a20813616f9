// SPDX-License-Identifier: Apache-2.0
//
// The sandbox as a tool of an agent that stays outside: look at /data/sales.csv, analyse last year's trend in several steps,
// report, destroy the sandbox. Each step is what an agent would decide from the answer before it; here they are written down.
// The steps keep files and an installed result between them, because they run in one sandbox.
import { readFile } from 'node:fs/promises'
import { Sandbox } from 'e2b'

const sales = await readFile(new URL('sales.csv', import.meta.url), 'utf8')
const sandbox = await Sandbox.create({ timeoutMs: 120_000, metadata: { task: 'sales-trend' } })

async function step(what, command) {
  const { stdout } = await sandbox.commands.run(command)
  console.log(`- ${what}\n${stdout.trimEnd().replace(/^/gm, '    ')}`)
  return stdout
}

try {
  await sandbox.commands.run('sudo mkdir -p /data && sudo chown user /data')
  await sandbox.files.write('/data/sales.csv', sales)
  await step('what is there', 'head -n 3 /data/sales.csv; wc -l /data/sales.csv')

  await sandbox.files.write('/home/user/monthly.py', `
import csv, collections, json
months = collections.OrderedDict()
for row in csv.DictReader(open("/data/sales.csv")):
    months[row["date"][:7]] = months.get(row["date"][:7], 0) + float(row["revenue"])
json.dump(months, open("/data/monthly.json", "w"))
for month, revenue in months.items():
    print(f"{month}  {revenue:9.2f}  " + "#" * round(revenue / 400))
`)
  await step('revenue by month', 'python3 monthly.py')

  await sandbox.files.write('/home/user/trend.py', `
import json
values = list(json.load(open("/data/monthly.json")).values())
n, mean = len(values), sum(values) / len(values)
slope = sum((i - (n - 1) / 2) * (v - mean) for i, v in enumerate(values)) / sum((i - (n - 1) / 2) ** 2 for i in range(n))
report = f"Revenue grew by {slope:.0f} a month on average, {100 * (values[-1] / values[0] - 1):.0f} % from January to December."
open("/data/report.txt", "w").write(report + "\\n")
`)
  await step('trend', 'python3 trend.py && cat /data/report.txt')
  console.log((await sandbox.files.read('/data/report.txt')).trim())
} finally {
  await sandbox.kill()
}
