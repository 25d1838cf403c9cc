// A clock for an engine that has no virtual time: timers of the page run when ``runTimers`` says so, and time jumps to the
// next. Those of frames run by themselves. And a page sees that a program drives the browser.
Object.defineProperty(Navigator.prototype, 'webdriver', {get: () => true});
if (self === top) {
  const {now} = Date, since = performance.now.bind(performance);
  const {port1, port2} = new MessageChannel, timers = new Map;
  let clock = 0, last = 0, jumped = 0, next = null;
  const set = (every, call, after, values) => {
    after = Math.max(+after || 0, 1);
    timers.set(++last, {at: clock + after, every: every && after, call, values});
    return last;
  };
  const first = () => {
    let found = null;
    for (const [id, timer] of timers) if (!found || timer.at < found[1].at) found = [id, timer];
    return found;
  };
  setTimeout = (call, after, ...values) => set(false, call, after, values);
  setInterval = (call, every, ...values) => set(true, call, every, values);
  requestAnimationFrame = call => set(false, () => call(performance.now()), 16, []);
  clearTimeout = clearInterval = cancelAnimationFrame = id => { timers.delete(id) };
  Date.now = () => now() + jumped;
  performance.now = () => since() + jumped;
  port1.onmessage = () => next && next();
  Object.defineProperty(self, 'runTimers', {value: (until, ahead) => new Promise(done => {
    let end = null, count = 0;
    next = () => {
      const found = first();
      if (found) end = end ?? Math.min(until, Math.max(clock, found[1].at) + ahead);
      if (count++ < 2) return port2.postMessage(0);  // what was done before is to be heard of
      if (!found || found[1].at > end) {
        if (!found || found[1].at > until) { jumped += until - clock; clock = until; end = null }
        next = null;
        return done(end !== null);
      }
      port2.postMessage(0);
      const [id, timer] = found;
      if (timer.at > clock) { jumped += timer.at - clock; clock = timer.at }
      if (timer.every) timer.at += timer.every; else timers.delete(id);
      if (typeof timer.call === 'function') timer.call.apply(self, timer.values); else (0, eval)(timer.call);
    };
    next();
  })});
}
