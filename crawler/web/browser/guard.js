// Keeps pop-ups and the page itself open or harmless: a pop-up would be closed, and the page could close itself. Opens
// closed shadow roots, to find their links. fetchLater would send a beacon. IndexedDB answers in real time, for which the
// page's clock does not wait: scroll.js waits for the requests and transactions that are open.
{
    open = () => null;
    close = () => undefined;
    if (globalThis.fetchLater) fetchLater = () => ({activated: false});
    const {attachShadow, setHTMLUnsafe} = Element.prototype;
    Element.prototype.attachShadow = function (init) { return attachShadow.call(this, {...init, mode: 'open'}); };
    Element.prototype.setHTMLUnsafe = function (html, ...more) {
        const open = String(html).replace(/(shadowrootmode\s*=\s*["']?)closed/gi, '$1open');
        return setHTMLUnsafe.call(this, open, ...more);
    };
    const unanswered = new Set;
    const follow = (type, name, ...ends) => {
        const method = type.prototype[name];
        type.prototype[name] = function (...values) {
            const asked = method.apply(this, values);
            unanswered.add(asked);
            for (const end of ends) asked.addEventListener(end, () => unanswered.delete(asked));
            return asked;
        };
    };
    follow(IDBFactory, 'open', 'success', 'error', 'blocked');
    follow(IDBDatabase, 'transaction', 'complete', 'abort');
    globalThis[Symbol.for('unanswered')] = unanswered;
}
