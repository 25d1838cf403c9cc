// Draws a frame, scrolls to the end of the page, and draws frames as long as they add something.
new Promise(done => {
  const frames = (n, next) => requestAnimationFrame(() => n ? frames(n - 1, next) : next());
  let changed = false;  // as long as frames add something, there are some more
  const seen = new MutationObserver(() => { changed = true });
  const more = n => {
    if (!n || !changed) { seen.disconnect(); return done() }
    changed = false;
    frames(0, () => more(n - 1));
  };
  seen.observe(document, {childList: true, subtree: true});
  frames(1, () => { scrollTo(0, document.documentElement.scrollHeight); frames(1, () => more(12)) });
})
