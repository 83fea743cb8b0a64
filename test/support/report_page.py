"""The page of a report in Chromium: report_page.py PAGE FOLDER

Opens the file PAGE at 400, 800 and 1600 pixels and writes each as a PNG into FOLDER. Ends with an error
where it scrolls sideways, where a drawing is too small to be read, or where, drawn larger, a logarithmic
axis has fewer than three labels or a curve ends before the edges of its chart.
"""
import shutil
import sys

from playwright.sync_api import sync_playwright

labels = """(chart) => [...chart.querySelectorAll('svg text[text-anchor=end]')]
    .map((text) => Number(text.textContent)).filter((number) => number > 0)"""
# Where a curve begins and ends, as shares of its chart's inner width.
ends = """(chart) => {
    const [, ...places] = chart.querySelector('path.curve').getAttribute('d').split(/[ML]/);
    const area = chart.querySelector('clipPath rect'), left = Number(area.getAttribute('x'));
    return [places[0], places.at(-1)].map(
        (place) => (Number(place.split(' ')[0]) - left) / Number(area.getAttribute('width')));
}"""


def main(path, folder):
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width in (400, 800, 1600):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto("file://" + path)
            page.screenshot(path=f"{folder}/report-{width}.png", full_page=True)
            found = page.evaluate("document.documentElement.scrollWidth")
            assert found <= width, f"expected a page of {width} pixels, found {found}"
            for table in page.locator(".wide").all():
                inner, outer = table.evaluate("(one) => [one.scrollWidth, one.clientWidth]")
                assert inner <= outer, f"expected a table of {outer} pixels at {width}, found {inner}"
            for drawing in page.locator(".drawing svg").all():
                found = drawing.bounding_box()["width"]
                assert found >= 600, f"expected a drawing of 600 pixels or more at {width}, found {found}"
        for chart in page.locator("figure.chart").all():
            box = chart.locator(".plot > svg").bounding_box()
            for share in (0.42, 0.58):
                page.mouse.move(box["x"] + share * box["width"], box["y"] + 50)
                page.mouse.down() if share < 0.5 else page.mouse.up()
            found = chart.evaluate(labels)
            assert len(found) >= 3, f"expected three labels or more, found {found}"
            first, last = chart.evaluate(ends)
            assert first <= 0 and last >= 1, f"expected a curve from edge to edge, found {first} to {last}"
        browser.close()


main(*sys.argv[1:])
