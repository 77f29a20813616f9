# SPDX-License-Identifier: Apache-2.0
"""Results as data: tables of pandas, charts of matplotlib, images of Pillow. Nothing is imported before the code does."""
import importlib.abc
import importlib.util
import json
import sys

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

import atoll_charts

MAX_CELLS = 1_000_000  # of a table that is handed over as data; larger ones are shown only


class DataFormatter(BaseFormatter):
    """A table: {column: [values]}."""

    format_type = Unicode("application/vnd.atoll.data+json")
    print_method = ObjectName("_repr_atoll_data_")
    _return_type = dict


class ChartFormatter(BaseFormatter):
    """What a figure shows."""

    format_type = Unicode("application/vnd.atoll.chart+json")
    print_method = ObjectName("_repr_atoll_chart_")
    _return_type = dict


def table_data(frame):
    if frame.size > MAX_CELLS:
        return None
    frame = frame.copy(deep=False)
    frame.columns = [str(column) for column in frame.columns]
    split = json.loads(frame.to_json(orient="split", date_format="iso", default_handler=str))
    return {name: [row[at] for row in split["data"]] for at, name in enumerate(split["columns"])}


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` with a module when it has been imported."""

    def __init__(self, name, then):
        self.name, self.then = name, then

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module
        return spec


def watch_images(module):
    """Images that are shown or saved to a file are results, too."""
    from IPython.display import display

    image_class = module.Image
    save = image_class.save

    def show(self, *arguments, **options):
        display(self)

    def save_and_show(self, fp, *arguments, **options):
        saved = save(self, fp, *arguments, **options)
        if isinstance(fp, str) or hasattr(fp, "__fspath__"):
            display(self)
        return saved

    image_class.show = show
    image_class.save = save_and_show


def give_figures_charts(module):
    """By a method of the class: matplotlib's own integration takes its figures out of every formatter."""
    module.Figure._repr_atoll_chart_ = atoll_charts.figure_chart


def install(shell):
    formatters = shell.display_formatter.formatters
    for formatter_class in (DataFormatter, ChartFormatter):
        formatter = formatter_class(parent=shell.display_formatter)
        formatters[formatter.format_type] = formatter
    data = formatters["application/vnd.atoll.data+json"]
    data.for_type_by_name("pandas.core.frame", "DataFrame", table_data)
    sys.meta_path.insert(0, AfterImport("matplotlib.figure", give_figures_charts))
    sys.meta_path.insert(0, AfterImport("PIL.Image", watch_images))
    sys.meta_path.insert(0, AfterImport("matplotlib.axes._axes", atoll_charts.watch_boxes))
