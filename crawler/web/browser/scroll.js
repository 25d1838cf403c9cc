// Draws frames, scrolls to the end of the page, and draws frames as long as they add something or IndexedDB must answer.
new Promise(done => {
  // A frame ends when observers have been called, of which this is the last: that may be after the next frame begins.
  const frame = next => requestAnimationFrame(() => new IntersectionObserver((_, own) => { own.disconnect(); next() })
    .observe(document.documentElement));
  let changed = false;
  const seen = new MutationObserver(() => { changed = true });
  const more = n => {
    if (globalThis[Symbol.for('unanswered')].size) return frame(() => more(n));
    if (!n || !changed) { seen.disconnect(); return done() }
    changed = false;
    frame(() => more(n - 1));
  };
  seen.observe(document, {childList: true, subtree: true});
  frame(() => { scrollTo(0, document.documentElement.scrollHeight); frame(() => more(12)) });
})
