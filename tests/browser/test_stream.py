"""What is live, what happens when it breaks off, and that nothing is lost by it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.documents import make_event, make_job
from tests.browser.serving import VIEWER, Serving

LOST = "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET"


def test_what_happens_meanwhile_is_told_after_a_loss(serving: Serving, tabs: Tabs) -> None:
    tabs.expect(LOST)
    job = make_job("run7")
    serving.reset(job)
    page = tabs.open(f"{serving.url}#/job/run7")
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#section-events li")).to_have_count(5)
    serving.hang_up()
    expect(page.locator("#connection")).to_contain_text("disconnected since")
    job.events.append(make_event(6, "leader_changed", "gpu-01 leads"))
    job.documents[""] = {**make_job("run7")[""], "generation": 4}
    serving.listen()
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#section-events li")).to_have_count(6)
    expect(page.locator("#section-events li").first).to_contain_text("gpu-01 leads")
    expect(page.locator(".facts dd").first).to_contain_text("4")
    assert (serving.resumed[0], serving.resumed[-1]) == (None, "5")


def test_a_history_that_is_refused_is_asked_for_again(serving: Serving, tabs: Tabs) -> None:
    """From where it was to begin: what the stream tells meanwhile does not stand for what came before."""
    tabs.expect("503")
    serving.reset(make_job("run7"))
    serving.unable = 1
    page = tabs.open(f"{serving.url}#/job/run7")
    expect(page.locator("#connection")).to_have_text("live")
    serving.tell("run7", make_event(6, "leader_changed", "gpu-01 leads"))
    expect(page.locator("#section-events li")).to_have_count(6)


def test_a_page_that_is_left_follows_no_longer(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open(f"{serving.url}#/job/run7")
    expect(page.locator("#connection")).to_have_text("live")
    assert serving.wait_followed(["run7"])
    page.get_by_role("link", name="elaunch").click()
    page.get_by_role("link", name="run7").wait_for()
    assert serving.wait_followed([None])


def test_events_are_read_whatever_the_pieces_they_come_in(serving: Serving, tabs: Tabs) -> None:
    page = tabs.open(serving.url)
    read = """async (pieces) => {
      const { events } = await import('/assets/live.js');
      const bytes = new TextEncoder().encode(pieces);
      const start = (to) => { for (const byte of bytes) to.enqueue(new Uint8Array([byte])); to.close(); };
      const body = new ReadableStream({ start });
      const all = [];
      for await (const one of events(body)) all.push([one.id, one.name, one.data]);
      return all;
    }"""
    text = ': beat\n\nid: 7\nevent: event\ndata: {"é": 1}\n\nevent: x\r\ndata:a\r\ndata: b\r\n\r\ndata: cut'
    assert page.evaluate(read, text) == [[None, "", ""], ["7", "event", '{"é": 1}'], [None, "x", "a\nb"]]


def test_who_must_show_a_token_is_asked_for_it(serving: Serving, tabs: Tabs) -> None:
    tabs.expect("401")
    serving.reset(make_job("run7"))
    serving.open_to_all = False
    page = tabs.open(f"{serving.url}#/job/run7")
    expect(page.get_by_role("heading", level=1)).to_have_text("A token is needed")
    page.locator("main").get_by_role("button", name="Token...").click()
    page.get_by_role("textbox", name="Token").fill("wrong")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_text("The server does not know this token.")).to_be_visible()
    page.get_by_role("textbox", name="Token").fill(VIEWER)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#section-events li")).to_have_count(5)
    expect(page.get_by_role("button", name="Abort...")).to_have_count(0)
    kept = "[sessionStorage.getItem('elaunch-token'), JSON.stringify(localStorage), document.cookie, location.href]"
    assert page.evaluate(kept) == [VIEWER, "{}", "", f"{serving.url}#/job/run7"]
