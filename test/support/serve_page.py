"""The page of a server in Chromium: serve_page.py PROGRAM FOLDER [SECONDS]

Starts `PROGRAM serve --demo`, opens its pages at 400 and 1600 pixels, light and dark, and writes each
as a PNG into FOLDER. Ends with an error where the page asks another server for anything, writes to the
console, draws nothing, or does not return after a break. SECONDS: how long the demonstration is read
before the pictures are taken.
"""
import shutil
import signal
import subprocess
import sys
import time

from playwright.sync_api import sync_playwright

# The bytes of each heat map as a PNG: one of a single colour has few.
drawn = "() => [...document.querySelectorAll('canvas.map')].map((map) => map.toDataURL().length)"


def until(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"expected within {seconds} s: {what}")


def main(program, folder, seconds="0"):
    server = subprocess.Popen([program, "serve", "--demo", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        look(server, server.stdout.readline().split()[-1], folder, float(seconds))
    finally:
        server.kill()


def look(server, url, folder, seconds):
    faults = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def open_page(path, width, scheme):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("request", lambda one: one.url.startswith(url) or faults.append("asked for " + one.url))
            page.on("console", lambda one: faults.append("console: " + one.text))
            page.on("pageerror", lambda one: faults.append("error: " + str(one)))
            page.goto(url + path)
            return page

        first = open_page("/dashboard", 1600, "light")
        until("two heat maps", lambda: len(first.evaluate(drawn)) == 2 and min(first.evaluate(drawn)) > 1000)
        until("answers to questions", lambda: first.locator("#story-answers tbody tr").count() == 6)
        time.sleep(seconds)
        before = first.locator(".card dd").first.inner_text()
        until("frames that go on", lambda: seconds > 100 or first.locator(".card dd").first.inner_text() != before)
        first.locator("canvas.map").first.press("ArrowRight")  # begins another stream of events
        until("live again", lambda: first.locator("#link").inner_text() == "live")
        for width in (400, 1600):
            for scheme in ("light", "dark"):
                page = open_page("/dashboard", width, scheme)
                until("two heat maps", lambda: len(page.evaluate(drawn)) == 2)
                until("no overflow to the side",
                      lambda: page.evaluate("document.documentElement.scrollWidth") <= width, 5)
                time.sleep(0.5)
                page.screenshot(path=f"{folder}/states-{width}-{scheme}.png", full_page=True)
                page.close()
        chat = open_page("/chat", 1600, "light")
        assert chat.locator("#hint").is_visible() and "37+45=?" in chat.inner_text("#hint")
        rows = {round(one.bounding_box()["y"] + one.bounding_box()["height"] / 2) for one in chat.locator("#ask .bar > *").all()}
        assert max(rows) - min(rows) < 8, f"expected buttons and fields in a row, found them at {rows}"
        for number, question in enumerate(["37+45=?", "80-23=?"], 1):
            chat.fill("#message", question)
            chat.press("#message", "Enter")
            until("an answer", lambda: "tokens/s" in chat.locator("#chat-note").inner_text() and
                  chat.locator("#talk .answer").count() == number and not chat.locator("#undo").is_disabled())
        assert "82" in chat.locator("#talk .answer").first.inner_text(), chat.inner_text("#talk")
        assert chat.locator("#hint").is_hidden()
        chat.screenshot(path=f"{folder}/chat-1600-light.png")
        chat.click("#undo")
        assert chat.locator("#talk > div").count() == 2
        narrow = open_page("/chat", 400, "dark")
        narrow.screenshot(path=f"{folder}/chat-400-dark.png")
        assert not faults, faults
        server.send_signal(signal.SIGTERM)  # open streams of events do not hold it up
        assert server.wait(20) == 0, "exit code"
        faults.clear()  # the page says that it has no connection, and so does the console
        until("a lost connection is told", lambda: first.locator("#link").inner_text() != "live")
        browser.close()


main(*sys.argv[1:])
