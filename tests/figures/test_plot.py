"""Pictures: valid files, equal bytes for equal input, and no value that breaks or flattens them."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.figures import plot
from slsgd_mx.figures.partition import draw_partition
from slsgd_mx.figures.plot import Curve, Panel, band, draw, frame
from slsgd_mx.figures.style import STYLE, look

EPOCHS = np.arange(1, 61)
FALLING = 2.3 * np.exp(-EPOCHS / 20)


@pytest.fixture(autouse=True)
def small_and_without_warnings(monkeypatch):
    monkeypatch.setitem(STYLE, "figure.dpi", 72)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # an older Matplotlib on a newer pyparsing
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def a_panel(*curves, **options):
    return Panel("Training loss", "Cross entropy", curves, **options)


def assert_png(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.rstrip(b"\0").endswith(b"IEND\xaeB`\x82")
    assert b"Software" not in data and b"matplotlib" not in data
    from matplotlib.image import imread

    pixels = imread(str(path))
    assert pixels.shape[0] > 200 and pixels.shape[1] > 200
    assert pixels[..., :3].std() > 0.01  # something is drawn
    return pixels


def repeated():
    noise = np.random.default_rng(0).normal(0, 0.02, (3, len(EPOCHS)))
    return [
        a_panel(Curve("FedAvg", EPOCHS, FALLING + noise), Curve("b=2", EPOCHS, FALLING * 1.1)),
        a_panel(Curve("b=2", EPOCHS, FALLING), decay_epoch=40, yscale="log"),
    ]


def test_draw_writes_png_and_svg_and_nothing_else(tmp_path):
    paths = [tmp_path / "new" / "fig.png", tmp_path / "new" / "fig.svg"]
    zoom = a_panel(Curve("only here", EPOCHS, FALLING), decay_epoch=4000, ylim=(0, 1))
    assert draw([*repeated(), zoom], paths, title="A title", note="synthetic data") == paths
    assert_png(paths[0])
    assert b"<svg" in paths[1].read_bytes() and b"<dc:date>" not in paths[1].read_bytes()
    assert sorted(os.listdir(tmp_path / "new")) == ["fig.png", "fig.svg"]


def test_equal_input_gives_equal_bytes(tmp_path):
    import matplotlib

    def paths(name):
        return [tmp_path / f"{name}.png", tmp_path / f"{name}.svg"]

    def contents(name):
        return [path.read_bytes() for path in paths(name)]

    draw(repeated(), paths("one"), title="t")
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 20}):
        draw(repeated(), map(str, paths("two")), title="t")  # the user's settings do not matter
        assert matplotlib.rcParams["font.size"] == 20  # and are left as they were
    draw(repeated(), paths("other"), title="u")
    assert contents("one") == contents("two")
    assert all(a != b for a, b in zip(contents("one"), contents("other")))

    counts = np.random.default_rng(0).integers(0, 9, (20, 10))
    draw_partition(counts, paths("one"))
    draw_partition(counts, paths("two"))
    assert contents("one") == contents("two")


def test_drawing_needs_neither_mxnet_nor_pyplot(tmp_path):
    code = (
        "import sys; from slsgd_mx.figures.plot import *; assert 'matplotlib' not in sys.modules;"
        "draw([Panel('t', 'y', [Curve('a', [1], [1])])], sys.argv[1]);"
        "assert not {'mxnet', 'matplotlib.pyplot'} & set(sys.modules)"
    )
    root = str(Path(plot.__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": root, "MPLBACKEND": "agg"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], check=True, env=env)


# ---- values that could break a picture -----------------------------------------------------

WILD = {
    "single point": ([5], [1.0]),
    "no point": ([], []),
    "all nan": ([1, 2], [np.nan, np.nan]),
    "all inf": ([1, 2], [np.inf, -np.inf]),
    "gap": ([1, 2, 3], [1.0, np.nan, 0.5]),
    "1e30": ([1, 2, 3], [2.0, 1e30, np.inf]),
    "float max": ([1, 2], [[1.0, 1.7e308], [1.0, 1.7e308]]),
    "constant zero": ([1, 2], [0.0, 0.0]),
    "negative": ([1, 2], [-5.0, -1e30]),
    "subnormal": ([1, 2], [5e-324, 5e-324]),
    "one repeat of three diverged": ([1, 2], [[1, 2], [1, np.nan], [1, np.inf]]),
}
CROSSED = {"all nan": (1, 2), "all inf": (2,), "no point": (1,), "1e30": (1, 1.5, 3)}


@pytest.mark.parametrize("name", WILD)
def test_wild_values_do_not_crash(tmp_path, name):
    wild = Curve(name, *WILD[name], diverged=CROSSED.get(name, ()))
    beside = [Curve("fine", EPOCHS, FALLING), wild]
    panels = [a_panel(wild, decay_epoch=2), a_panel(wild, yscale="log"), a_panel(*beside)]
    draw(panels, tmp_path / "fig.png", columns=3)
    assert_png(tmp_path / "fig.png")


def test_no_curves_is_an_empty_panel(tmp_path):
    draw([a_panel()], tmp_path / "fig.png")
    assert_png(tmp_path / "fig.png")


@pytest.mark.parametrize("log", [False, True])
def test_a_diverged_curve_does_not_flatten_the_others(log):
    fine = [band(Curve("fine", EPOCHS, FALLING * scale)) for scale in (1, 1.1)]
    wild = band(Curve("wild", EPOCHS, np.where(EPOCHS < 30, 2.3, 1e30)))
    with_it, without = frame([*fine, wild], log), frame(fine, log)
    np.testing.assert_allclose(with_it, without)
    # A curve that merely does badly stays in the picture.
    collapsed = band(Curve("collapsed", EPOCHS, np.linspace(2.3, 6, 60)))
    assert frame([*fine, collapsed], log)[1] > 6


def test_shares_and_their_differences_are_never_cut():
    stuck = band(Curve("stuck", EPOCHS, 0.01 + 0 * EPOCHS))
    good = band(Curve("good", EPOCHS, np.linspace(0.01, 0.95, 60)))
    low, high = frame([stuck, stuck, good])
    assert low < 0.01 and high > 0.95
    calm, other = (band(Curve("c", [1, 2, 3], y)) for y in ([-0.001, 0, 0], [0, -0.3, 0.2]))
    np.testing.assert_allclose(frame([calm, calm, other]), (-0.325, 0.225))


def limits_hold(limits, log):
    return np.isfinite(limits).all() and limits[0] < limits[1] and (not log or limits[0] > 0)


@given(
    st.lists(st.lists(st.floats(width=32), min_size=1, max_size=6), max_size=4),
    st.booleans(),
)
@settings(deadline=None)
def test_frame_is_always_drawable(values, log):
    bands = [band(Curve("c", range(len(y)), y)) for y in values]
    assert limits_hold(frame(bands, log), log)


def legend_of(monkeypatch, panels, tmp_path):
    """The labels that `draw` puts in the legend."""
    seen = []
    arrange = plot._arrange

    def spy(figure, *rest):
        arrange(figure, *rest)
        seen.extend(text.get_text() for text in figure.legends[0].get_texts())

    monkeypatch.setattr(plot, "_arrange", spy)
    draw(panels, tmp_path / "fig.png")
    return seen


def test_the_legend_names_curves_that_leave_the_picture(monkeypatch, tmp_path):
    fine, wild = Curve("fine", EPOCHS, FALLING), Curve("wild", EPOCHS, 10.0 ** (EPOCHS / 2))
    labels = legend_of(monkeypatch, [a_panel(fine, wild), a_panel(fine)], tmp_path)
    assert labels == ["fine", "wild (leaves the panel)"]


def test_a_curve_leaves_only_if_its_mean_does():
    curve = Curve("c", [1, 2], np.array([[1.0, 1.0], [1.0, 3.0]]))
    assert not plot.beyond(band(curve), (0, 2.5), False).any()
    assert plot.beyond(band(curve), (0, 1.5), False).tolist() == [[False, False], [False, True]]


def test_a_curve_is_in_the_legend_once_with_the_remarks_of_all_panels(monkeypatch, tmp_path):
    one, two = Curve("a", [1], [1], remark="1 lost"), Curve("a", [1], [2], remark="2 lost")
    own = a_panel(Curve("apart", [0.8, 1], [1, 2]), own_legend=True)
    high = a_panel(Curve("a", [1], [5]), Curve("b", [1], [1]), ylim=(0, 2))
    panels = [a_panel(one), a_panel(one), a_panel(two), own, high]
    labels = legend_of(monkeypatch, panels, tmp_path)
    assert labels == ["a (1 lost; 2 lost; leaves the panel)", "b"]


def test_the_small_print_explains_what_is_drawn(monkeypatch, tmp_path):
    notes = []
    monkeypatch.setattr(plot, "_arrange", lambda figure, entries, title, note: notes.append(note))
    y = np.array([[1.0, 2.0], [2.0, 3.0]])
    kept, cut = (Curve("c", [1, 2], y) for _ in range(2))
    lost = Curve("lost", [1, 2], [[1.0, np.nan], [2.0, 2.0]])
    some = Curve("of those known", [1, 2], lost.y, summary=plot.band_of_known(lost.y))
    ended = Curve("ended", [1, 2], lost.y, summary=np.array([[1.0, np.nan]] * 3))
    both = [a_panel(cut, ylim=(0, 2)), a_panel(kept, dots=True)]
    for panels in ([a_panel(kept)], both, [a_panel(lost)], [a_panel(some)], [a_panel(ended)]):
        draw(panels, tmp_path / "fig.png", note="Data.")
    assert notes[3:] == [notes[0], notes[2]]
    assert notes[:3] == [
        "Line: mean of 2 repeats; band: minimum to maximum. Data.",
        "Line: mean of 2 repeats; band or bar: minimum to maximum; dots: single repeats. "
        "Triangles at the edge: the curve is beyond the panel there. Data.",
        "Line: mean of 2 repeats; band: minimum to maximum. "
        "A line ends where the first of its repeats ends. Data.",
    ]


def test_a_zoom_names_only_curves_that_end_outside(monkeypatch, tmp_path):
    fine, high = Curve("fine", EPOCHS, FALLING), Curve("high", EPOCHS, 2.3 + 0 * EPOCHS)
    panel = a_panel(fine, high, ylim=(0, 1), zoom=True, outside="above the zoom")
    labels = legend_of(monkeypatch, [panel], tmp_path)
    assert labels == ["fine", "high (above the zoom)"]
    failed = Curve("failed", [1, 2, 3], [[0.5, 9, np.nan], [0.5, 9, 9]])  # one repeat diverged
    assert plot.beyond(band(failed), (0, 1), True).tolist() == [[False] * 3, [False, True, False]]


def drawn_crosses(figure, ax):
    """The places of crosses, and their height in the panel or how far above it they begin."""
    frame, half = ax.get_window_extent(), 7 / 2 * figure.dpi / 72
    for line in ax.lines:
        if line.get_marker() == "x":
            assert line.get_color() == look(1)["color"]
            _, pixels = line.get_transform().transform(line.get_xydata()).T
            for x, y, pixel in zip(*line.get_data(), pixels):
                words = [text.get_window_extent().y0 for text in [ax.title, *ax.texts]]
                assert pixel + half < min(words)
                yield x, y if pixel < frame.y1 else "above" if pixel - half > frame.y1 else "across"


def test_a_cross_is_on_the_curve_or_above_the_panel():
    fine = Curve("fine", [2, 4, 6], [0.3, 0.4, 0.5])
    lost = [
        Curve("lost", [2, 4, 6], [0.1, 0.1, 0.3], diverged=(4, 5)),
        Curve("lost", [2, 4, 6], [0.4, np.inf, np.inf], diverged=(2, 4, 5)),  # carets are within
        Curve("lost", [2, 4, 6], [-9, -9, np.nan], diverged=(4, 6)),
    ]
    panels = [a_panel(fine, each, ylim=(0, 1), decay_epoch=4) for each in lost]
    with plot.composed(panels) as figure:
        figure.canvas.draw()
        found = [list(drawn_crosses(figure, ax)) for ax in figure.axes[:3]]
        left, right = (ax.title.get_window_extent().y0 for ax in figure.axes[:2])
        said = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
    assert found[0] == [(4, 0.1), (5, pytest.approx(0.2))]
    assert found[1:] == [[(2, 0.4), (4, "above"), (5, "above")], [(4, "above"), (6, "above")]]
    assert left == pytest.approx(right)  # although only one of them needs room for crosses
    assert said.count(panels[0].crosses) == 1 and "loss that is not a number" in said


def test_a_figure_without_crosses_has_no_room_for_them():
    def title(**options):
        with plot.composed([a_panel(Curve("c", [2, 4], [0.1, 0.2], **options))]) as figure:
            figure.canvas.draw()
            (ax,) = figure.axes
            assert ("cross" in figure.texts[0].get_text()) == bool(options)
            return ax.title.get_window_extent().y0 - ax.get_window_extent().y1

    assert title() == pytest.approx(title(diverged=(4,)))  # it is on the curve


def is_dot(line):
    return line.get_marker() == "."


@pytest.mark.parametrize(
    "y, marked",
    [
        ([np.inf, 14, 10], [0.6]),
        ([10, np.inf, np.inf], [0.8, 1.0]),
        ([[12, 14, 10], [np.inf, 14, 10]], [0.6]),  # one seed of two
        ([12, 14, 10], []),
    ],
)
def test_points_that_are_never_reached_are_marked_one_by_one(monkeypatch, tmp_path, y, marked):
    carets, dots, mark = [], [], plot._mark_exits

    def spy(ax, x, out, *rest):
        before = len(ax.lines)
        mark(ax, x, out, *rest)
        carets.extend(x for line in ax.lines[before:] for x in line.get_xdata())
        dots.append(sum(np.isfinite(each.get_ydata()).sum() for each in ax.lines if is_dot(each)))

    monkeypatch.setattr(plot, "_mark_exits", spy)
    curve = Curve("line", [0.6, 0.8, 1], y)
    panel = a_panel(curve, ylim=(0, 17), outside="never reached", dots=True)
    labels = legend_of(monkeypatch, [panel], tmp_path)
    assert carets == marked
    reached = np.isfinite(curve.y).sum() if len(curve.y) > 1 else 0
    assert dots == [reached] * 2  # repeats that reach it are visible even if another does not
    assert labels == ["line (never reached)" if marked else "line"]


def test_a_label_has_one_look_everywhere_and_looks_differ():
    looks = [look(i) for i in range(16)]
    assert len({(each["color"], each["marker"]) for each in looks}) == 16
    assert len({(str(each["linestyle"]), each["marker"]) for each in looks[:8]}) == 8


# ---- partitions ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(100, 10), (1, 1), (3, 40), (500, 10)])
def test_draw_partition(tmp_path, shape):
    counts = np.random.default_rng(0).integers(0, 3, shape)
    assert draw_partition(counts, tmp_path / "p.png", title="t") == [tmp_path / "p.png"]
    assert_png(tmp_path / "p.png")


def test_draw_partition_with_names_and_without_samples(tmp_path):
    draw_partition(np.zeros((4, 2), int), [tmp_path / "p.png", tmp_path / "p.svg"], names="ab")
    assert sorted(os.listdir(tmp_path)) == ["p.png", "p.svg"]


# ---- errors --------------------------------------------------------------------------------


def test_an_unwritable_folder_is_a_run_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file" / "fig.png", tmp_path / "file" / "deep" / "fig.png"):
        with pytest.raises(RunError, match="fig.png cannot be written"):
            draw([a_panel()], path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_keeps_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "fig.png"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match="No space left on device"):
        draw([a_panel()], path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["fig.png"]


def test_wrong_calls(tmp_path):
    with pytest.raises(ConfigError, match=r"fig.pdf.*\.png or \.svg"):
        draw(repeated(), tmp_path / "fig.pdf")
    with pytest.raises(ConfigError, match="at least one panel"):
        draw([], tmp_path / "fig.png")
    with pytest.raises(ConfigError, match=r"shape \(3,\) cannot be drawn"):
        draw_partition(np.zeros(3), tmp_path / "p.png")
    for x, y in (([1, 2], [1]), ([[1]], [1]), ([1], [[[1]]]), ([1], np.zeros((0, 1)))):
        with pytest.raises(ConfigError, match="curve 'c'"):
            Curve("c", x, y)
    assert os.listdir(tmp_path) == []
