"""The web page in Chromium: a person lists slots, decides, explains and runs an experiment, with the keyboard alone."""

import json
import threading
import time

import httpx
import pytest
import uvicorn
from _chromium import Page
from _service import CONTEXT, SPEC, application_of

import prudent as pr

WRONG = """(() => {
  const width = document.documentElement.clientWidth;
  const cut = [...document.body.querySelectorAll("*")].filter(each => {
    const box = each.getBoundingClientRect();
    return box.right > width + 0.5 || box.left < -0.5;
  });
  return cut.map(each => each.tagName + "#" + each.id + " " + each.textContent.slice(0, 30));
})()"""
CONTRAST = """(() => {
  const light = (text) => {
    const parts = text.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255)
      .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const texts = [...document.body.querySelectorAll("*")].filter(each => [...each.childNodes]
    .some(node => node.nodeType === 3 && node.textContent.trim()) && each.getClientRects().length);
  return Math.min(...texts.map(each => {
    const style = getComputedStyle(each), ink = light(each.closest("svg") ? style.fill : style.color);
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  }));
})()"""
NAMED = """[...document.querySelectorAll("button, input, a")].filter(each => each.getClientRects().length)
  .filter(each => !(each.textContent.trim() || each.labels?.length || each.getAttribute("aria-label")))
  .map(each => each.outerHTML)"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a server in this process, with a slot that has an experiment."""
    app = application_of(tmp_path_factory.mktemp("page"))
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, lifespan="on", log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        found = f"http://127.0.0.1:{port}"
        with pr.Client(found, key="all") as client:
            spec = {**SPEC, "rewards": "bernoulli", "min_propensity": 0.1}
            for name in ("home", "other"):
                client.put_slot(name, **spec)
            challenger = {key: value for key, value in spec.items() if key not in ("fallback", "seed")}
            experiment = {"ramp": 0.5, "challenger": challenger}
            headers = {"authorization": "Bearer all"}
            httpx.put(f"{found}/v1/slots/home/experiment", json=experiment, headers=headers).raise_for_status()
            requests = [{"context": CONTEXT, "note": {"user": f"u{i}"}} for i in range(20)]
            decisions = client.decide_many("home", requests)
            client.reward_many("home", [(one.id, float(i % 3 == 0)) for i, one in enumerate(decisions)])
        yield found
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with Page(tmp_path_factory.mktemp("chromium") / "profile") as page:
        page.window(1280)
        yield page


def tab_to(page, script):
    """Press Tab until an expression holds for the element that has the focus; return how many times."""
    for count in range(1, 40):
        page.press("Tab")
        if page.see(f"(each => {script})(document.activeElement)"):
            return count
    raise AssertionError((script, page.see("document.activeElement.outerHTML")))


def opened(page):
    """Return when the slot "home" and its experiment are shown."""
    page.wait("document.querySelectorAll('#experiment table').length > 1 && !!document.querySelector('#means svg')")


def log_in(page, address, key="all"):
    page.go(f"{address}/")
    page.see("sessionStorage.clear()")
    page.go(f"{address}/")
    page.wait("document.getElementById('message').textContent.startsWith('Give a key')")
    assert tab_to(page, "each.id === 'key'") == 1  # the first stop
    page.write(key)
    page.press("Enter")
    page.wait("document.querySelectorAll('nav button').length === 2")
    tab_to(page, "each.textContent === 'home'")
    page.press("Enter")
    opened(page)


def test_a_person_with_a_keyboard_decides_explains_and_stops_an_experiment(page, address):
    log_in(page, address)
    assert page.see("[...document.querySelectorAll('nav button')].map(each => each.textContent)") == ["home", "other"]
    assert page.see("document.activeElement.id") == "name"  # the heading of the slot, which a reader says
    parts = page.see("[...document.querySelectorAll('#experiment table:first-of-type tr')].map(row => row.innerText)")
    assert sum(int(row.split()[1]) for row in parts[1:3]) == 20  # champion and challenger
    tab_to(page, "each.id === 'context'")
    assert json.loads(page.see("document.activeElement.value")) == {"age": 0, "visits": 0}
    page.press("Enter")
    text = page.wait("document.getElementById('decision').textContent")
    assert text.startswith("arm ")
    tab_to(page, "each.id === 'id'")
    assert page.see("document.activeElement.value") in text
    page.press("Enter")
    assert "The likeliest choice is" in page.wait("document.getElementById('why').textContent")
    page.answer = "enough seen"
    page.see("document.getElementById('name').focus()")
    order = []
    while "Rollback" not in order:
        page.press("Tab")
        order.append(page.see("document.activeElement.textContent"))
    assert order == ["Pause", "Archive", "Promote", "Pause", "Stop", "Rollback"]
    page.press("Tab", shift=True)
    page.press("Enter")
    page.wait("document.getElementById('experiment').textContent.startsWith('stopped since')")
    assert "enough seen" in page.see("document.getElementById('experiment').textContent")
    assert page.see("[...document.querySelectorAll('#experiment button')].map(b => b.textContent)") == ["Rollback"]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (320, False), (375, True)])
def test_nothing_is_cut_off_and_texts_can_be_read(page, address, width, dark):
    page.window(width, dark=dark, phone=width < 500)
    log_in(page, address)
    assert page.see(WRONG) == []
    assert page.see("document.documentElement.scrollWidth") <= width
    assert page.see(CONTRAST) >= 4.5  # what WCAG asks for
    assert page.see(NAMED) == []


def test_the_page_says_what_is_wrong(page, address):
    page.window(1280)
    log_in(page, address)
    page.see("document.getElementById('context').value = '{\"age\": 1}'")
    page.see("document.querySelector('#decide button').click()")
    page.wait("document.getElementById('message').textContent.includes('different-features')")
    assert page.see("document.getElementById('message').className") == "error"
    page.see("document.getElementById('context').value = '{'; document.querySelector('#decide button').click()")
    page.wait("document.getElementById('message').textContent.includes('JSON')")
    page.see("sessionStorage.setItem('prudent-key', 'hashed')")  # may read only
    page.see("document.querySelector('#buttons button').click()")
    page.wait("document.getElementById('message').textContent.includes('wrong-role')")
    unexpected = [text for text in page.console if "40" not in text and "422" not in text]
    assert unexpected == []
