// Keeps pop-ups and the page itself open or harmless: a pop-up would be closed, and the page could close itself. Opens
// closed shadow roots, to find their links. fetchLater would send a beacon.
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
}
