// Keeps an open page at what the server holds: asks for the same address again and swaps the main part when it changed.
// Without this script every page is complete; it only grows old.
"use strict";

(() => {
  const every = Number(document.body.dataset.refresh);
  const stale = document.getElementById("stale");
  const GONE = [400, 401, 403, 404];
  if (!every) return;
  let tag = "";

  async function look() {
    const asked = tag ? { "If-None-Match": tag } : {};
    const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin", headers: asked });
    if (GONE.includes(answer.status)) {
      say(`This page is no longer there (${answer.status}). Reload to see why.`);
      return 0;
    }
    if (answer.status !== 304 && !answer.ok) throw new Error(`the server answered ${answer.status}`);
    say("");
    if (answer.status === 304) return every;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (reading()) return every;
    tag = answer.headers.get("ETag") || "";
    swap(next);
    return Number(next.body.dataset.refresh) || 0;
  }

  // Somebody marks text or uses a form: the page waits for them.
  function reading() {
    const selection = getSelection();
    const marked = selection && !selection.isCollapsed && document.getElementById("main").contains(selection.anchorNode);
    return marked || Boolean(document.activeElement && document.activeElement.closest("#main form"));
  }

  function swap(next) {
    const old = document.getElementById("main");
    const fresh = next.getElementById("main");
    if (!fresh || old.innerHTML === fresh.innerHTML) return;
    for (const details of old.querySelectorAll("details[id]")) {
      const twin = next.getElementById(details.id);
      if (twin) twin.open = details.open;
    }
    const scrolled = [...old.querySelectorAll(".scroll, pre")].map((box) => [box.scrollLeft, box.scrollTop]);
    const focused = old.contains(document.activeElement) ? place(document.activeElement, old) : null;
    old.replaceChildren(...fresh.childNodes);
    document.title = next.title;
    old.querySelectorAll(".scroll, pre").forEach((box, index) => {
      if (scrolled[index]) [box.scrollLeft, box.scrollTop] = scrolled[index];
    });
    if (focused) {
      const again = [...old.querySelectorAll(focused.selector)][focused.index];
      if (again) again.focus({ preventScroll: true });
    }
  }

  // The same element in the next version: by its address or id, else by its number among its kind.
  function place(element, root) {
    const href = element.getAttribute("href");
    const selector = element.id ? `#${CSS.escape(element.id)}` : href ? `a[href="${CSS.escape(href)}"]` : element.localName;
    return { selector, index: [...root.querySelectorAll(selector)].indexOf(element) };
  }

  function say(text) {
    stale.textContent = text;
    stale.hidden = !text;
  }

  async function run() {
    let wait = every;
    while (wait) {
      await new Promise((done) => setTimeout(done, wait));
      if (document.hidden) continue;
      try {
        wait = await look();
      } catch (error) {
        say(`Refresh failed: ${error.message}. What you see may be out of date.`);
        wait = Math.min(wait * 2, 30000);
      }
    }
  }

  run();
})();
