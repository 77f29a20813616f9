# SPDX-License-Identifier: Apache-2.0
"""What a figure of matplotlib shows, as plain data (docs/guides/code-interpreter.md has the fields)."""
import math
import re

MAX_POINTS = 100_000  # of one figure; of a larger one only kinds and labels are told


def watch_boxes(module):
    """Keeps the numbers of box plots, which the drawn figure no longer has."""
    axes_class = module.Axes
    bxp = axes_class.bxp

    def bxp_and_keep(self, bxpstats, *arguments, **options):
        drawn = bxp(self, bxpstats, *arguments, **options)
        self.__dict__.setdefault("_atoll_boxes", []).extend(bxpstats)
        return drawn

    axes_class.bxp = bxp_and_keep


def plain(value):
    """A value that JSON has."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def unit_of(label):
    found = re.search(r"\(([^()]*)\)\s*$", label or "")
    return found.group(1) if found else None


def shown_label(artist):
    label = artist.get_label()
    return "" if not isinstance(label, str) or label.startswith("_") else label


class Axis:
    """One axis of a chart: its scale, and how its numbers read."""

    def __init__(self, axis):
        self.axis = axis
        kind = type(getattr(axis, "converter", None) or _converter(axis)).__name__
        if "Date" in kind:
            self.scale = "datetime"
        elif "Category" in kind:
            self.scale = "categorical"
        else:
            self.scale = axis.get_scale()
        self.names = {}
        if self.scale == "categorical":
            self.names = {at: name for name, at in axis.units._mapping.items()}

    def value(self, number):
        """A position on this axis as the code meant it."""
        if self.scale == "datetime":
            from matplotlib.dates import num2date

            number = float(number)
            return num2date(number).isoformat() if math.isfinite(number) else None
        if self.scale == "categorical":
            return self.names.get(plain(number), plain(number))
        return plain(number)

    def tick_labels(self):
        return [label.get_text() for label in self.axis.get_ticklabels()]

    def describe(self, name):
        label = self.axis.get_label().get_text() or None
        return {f"{name}_label": label, f"{name}_unit": unit_of(label)}

    def describe_all(self, name):
        fields = self.describe(name)
        fields[f"{name}_ticks"] = [self.value(tick) for tick in self.axis.get_ticklocs()]
        fields[f"{name}_tick_labels"] = self.tick_labels()
        fields[f"{name}_scale"] = self.scale
        return fields


def _converter(axis):
    get = getattr(axis, "get_converter", None)
    return get() if get else None


def points(x_axis, y_axis, pairs):
    return [[x_axis.value(x), y_axis.value(y)] for x, y in pairs]


def point_chart(axes, kind, series):
    x_axis, y_axis = Axis(axes.xaxis), Axis(axes.yaxis)
    elements = [{"label": shown_label(artist), "points": points(x_axis, y_axis, pairs)} for artist, pairs in series]
    return {"type": kind, **x_axis.describe_all("x"), **y_axis.describe_all("y"), "elements": elements}


def line_chart(axes):
    series = [(line, zip(line.get_xdata(orig=False), line.get_ydata(orig=False))) for line in axes.lines]
    return point_chart(axes, "line", series)


def scatter_chart(axes):
    series = [(each, list(each.get_offsets().data)) for each in scatters(axes)]
    return point_chart(axes, "scatter", series)


def scatters(axes):
    return [each for each in axes.collections if type(each).__name__ == "PathCollection" and len(each.get_offsets())]


def bars(axes):
    return [each for each in axes.containers if type(each).__name__ == "BarContainer"]


def bar_label(axis, ticks, position):
    if axis.names:
        return str(axis.names.get(plain(position), plain(position)))
    named = type(axis.axis.get_major_formatter()).__name__ != "ScalarFormatter"
    near = named and min(ticks, key=lambda tick: abs(tick[0] - position), default=None)
    if near and near[1] and abs(near[0] - position) < 0.5:
        return near[1]
    return str(axis.value(position))


def bar_chart(axes):
    x_axis, y_axis = Axis(axes.xaxis), Axis(axes.yaxis)
    elements = []
    for container in bars(axes):
        across = getattr(container, "orientation", "vertical") == "horizontal"
        axis = y_axis if across else x_axis
        ticks = list(zip(axis.axis.get_ticklocs(), axis.tick_labels()))
        for bar in container.patches:
            middle = bar.get_y() + bar.get_height() / 2 if across else bar.get_x() + bar.get_width() / 2
            value = bar.get_width() if across else bar.get_height()
            elements.append(
                {"label": bar_label(axis, ticks, middle), "value": plain(value), "group": shown_label(container)}
            )
    return {"type": "bar", **x_axis.describe("x"), **y_axis.describe("y"), "elements": elements}


def pie_chart(axes):
    elements = [
        {"label": shown_label(wedge), "angle": plain(abs(wedge.theta2 - wedge.theta1)), "radius": plain(wedge.r)}
        for wedge in wedges(axes)
    ]
    return {"type": "pie", "elements": elements}


def wedges(axes):
    return [each for each in axes.patches if type(each).__name__ == "Wedge"]


def box_chart(axes):
    x_axis, y_axis = Axis(axes.xaxis), Axis(axes.yaxis)
    elements = []
    for at, box in enumerate(axes._atoll_boxes):
        elements.append(
            {
                "label": str(box.get("label", "") or at + 1),
                "min": plain(box["whislo"]),
                "first_quartile": plain(box["q1"]),
                "median": plain(box["med"]),
                "third_quartile": plain(box["q3"]),
                "max": plain(box["whishi"]),
                "outliers": [plain(value) for value in box.get("fliers", [])],
            }
        )
    return {"type": "box_and_whisker", **x_axis.describe("x"), **y_axis.describe("y"), "elements": elements}


def axes_chart(axes):
    if wedges(axes):
        chart = pie_chart(axes)
    elif getattr(axes, "_atoll_boxes", None):
        chart = box_chart(axes)
    elif bars(axes):
        chart = bar_chart(axes)
    elif axes.lines:
        chart = line_chart(axes)
    elif scatters(axes):
        chart = scatter_chart(axes)
    else:
        chart = {"type": "unknown", "elements": []}
    return {"title": axes.get_title() or None, **chart}


def size_of(figure):
    count = 0
    for axes in figure.axes:
        count += sum(len(line.get_xdata(orig=False)) for line in axes.lines)
        count += sum(len(each.get_offsets()) for each in scatters(axes))
    return count


def figure_chart(figure):
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]
    if not shown:
        return None
    if size_of(figure) > MAX_POINTS:
        return {"type": "unknown", "title": shown[0].get_title() or None, "elements": []}
    charts = [axes_chart(axes) for axes in shown]
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if figure._suptitle else None
    return {"type": "superchart", "title": title or None, "elements": charts}
