// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, template } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
});
after(() => sandbox?.kill());

const run = async (code) => {
  const ran = await sandbox.runCode(code);
  assert.equal(ran.error, undefined, JSON.stringify(ran.error));
  return ran;
};
const result = async (code) => {
  const { results } = await run(code);
  assert.equal(results.length, 1, JSON.stringify(results));
  return results[0];
};
const chart = async (code) => (await result(`import matplotlib.pyplot as plt\n${code}\nplt.show()`)).chart;

test('the main result and what was displayed apart', async () => {
  const ran = await run('display("shown")\n"value"');
  assert.deepEqual(
    ran.results.map((each) => [each.text, each.isMainResult]),
    [
      ['shown', false],
      ['value', true],
    ],
  );
  assert.equal(ran.text, 'value');
  assert.equal((await run('None')).results.length, 0);
});

test('every format', async () => {
  const bundle = {
    'text/plain': 'plain',
    'text/html': '<b>h</b>',
    'text/markdown': '*m*',
    'image/svg+xml': '<svg/>',
    'image/png': 'cG5n',
    'image/jpeg': 'anBlZw==',
    'application/pdf': 'cGRm',
    'text/latex': '$x$',
    'application/json': { a: [1] },
    'application/javascript': 'j()',
    'application/x-other': 'other',
  };
  const shown = await result(`display(${JSON.stringify(bundle)}, raw=True)`);
  const { text, html, markdown, svg, png, jpeg, pdf, latex, json, javascript } = shown;
  assert.deepEqual(
    [text, html, markdown, svg, png, jpeg, pdf, latex, json, javascript],
    Object.values(bundle).slice(0, -1),
  );
  assert.equal(shown.raw.extra['application/x-other'], 'other');
});

test('a table as data', async () => {
  const table = await result(`
import pandas as pd
dates = pd.to_datetime(["2024-01-02", "2024-03-04"])
pd.DataFrame({"n": [1, 2], "f": [0.5, None], "s": ["a", "ü"], "d": dates})`);
  assert.match(table.html, /<table/);
  assert.deepEqual([table.data.n, table.data.f, table.data.s], [[1, 2], [0.5, null], ['a', 'ü']]);
  assert.match(table.data.d[0], /^2024-01-02T/);
});

test('images: of matplotlib and of Pillow', async () => {
  const png = Buffer.from('89504e470d0a1a0a', 'hex');
  const figure = await result('import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()');
  assert.deepEqual(Buffer.from(figure.png, 'base64').subarray(0, 8), png);
  const image = await result('from PIL import Image\nImage.new("RGB", (3, 3)).save("/tmp/x.png")');
  assert.deepEqual(Buffer.from(image.png, 'base64').subarray(0, 8), png);
  assert.ok((await result('Image.new("RGB", (3, 3)).show()')).png);
  assert.ok((await result('Image.new("RGB", (3, 3))')).png);
});

test('chart: line', async () => {
  const line = await chart(`
plt.plot([1, 2, 3], [10, 100, 1000], label="growth")
plt.yscale("log"); plt.xlabel("Time (s)"); plt.ylabel("Size"); plt.title("T")`);
  assert.deepEqual(
    [line.type, line.title, line.x_label, line.x_unit, line.y_label, line.y_unit, line.x_scale, line.y_scale],
    ['line', 'T', 'Time (s)', 's', 'Size', null, 'linear', 'log'],
  );
  assert.deepEqual(line.elements, [{ label: 'growth', points: [[1, 10], [2, 100], [3, 1000]] }]);
  assert.ok(line.x_ticks.length > 0 && line.x_ticks.length === line.x_tick_labels.length);
});

test('chart: scatter over dates', async () => {
  const scatter = await chart('import datetime as dt\nplt.scatter([dt.date(2024, 1, 1), dt.date(2024, 2, 1)], [1, 2], label="s")');
  assert.deepEqual([scatter.type, scatter.x_scale], ['scatter', 'datetime']);
  assert.match(scatter.elements[0].points[0][0], /^2024-01-01T/);
});

test('chart: bar, with groups', async () => {
  const bar = await chart('plt.bar(["x", "y"], [1, 2], label="g"); plt.bar(["x", "y"], [3, 4], bottom=[1, 2], label="h")');
  assert.equal(bar.type, 'bar');
  assert.deepEqual(bar.elements, [
    { label: 'x', value: 1, group: 'g' },
    { label: 'y', value: 2, group: 'g' },
    { label: 'x', value: 3, group: 'h' },
    { label: 'y', value: 4, group: 'h' },
  ]);
  assert.deepEqual(
    (await chart('plt.barh(["a"], [7])')).elements.map((each) => [each.label, each.value]),
    [['a', 7]],
  );
});

test('chart: pie', async () => {
  const pie = await chart('plt.pie([1, 3], labels=["a", "b"])');
  assert.equal(pie.type, 'pie');
  assert.deepEqual(
    pie.elements.map((each) => [each.label, Math.round(each.angle), each.radius]),
    [
      ['a', 90, 1],
      ['b', 270, 1],
    ],
  );
});

test('chart: box and whisker', async () => {
  const box = await chart('plt.boxplot([[1, 2, 3, 4, 50]], labels=["b"])');
  assert.equal(box.type, 'box_and_whisker');
  assert.deepEqual(box.elements, [
    { label: 'b', min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [50] },
  ]);
});

test('chart: several axes, and what is none of these', async () => {
  const both = await chart('figure, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(["x"], [1]); figure.suptitle("S")');
  assert.deepEqual([both.type, both.title], ['superchart', 'S']);
  assert.deepEqual(both.elements.map((each) => each.type), ['line', 'bar']);
  assert.equal((await chart('plt.imshow([[1, 2], [3, 4]])')).type, 'unknown');
});
