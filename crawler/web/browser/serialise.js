// The document of a frame as HTML, as it is seen: shadow roots and frames of its origin in place, URLs absolute, without
// scripts. It is run in an isolated world, whose built-ins the page cannot change.
//
// The value is {parts, cut, url}. Between two parts belongs the document of a frame of another origin, whose element is in
// `foreign`. Of such a frame only what its body holds is wanted: it is not `whole`. No recursion, and bounds: a page may be as deep and as large as it likes.
(bounds, whole) => {
  const VOID = new Set('area base br col embed hr img input link meta param source track wbr'.split(' '));
  const LEFT_OUT = new Set('base noembed noframes noscript plaintext script style template'.split(' '));
  const URLS = ['href', 'src', 'action', 'formaction', 'cite', 'poster', 'data', 'background', 'longdesc'];
  const IN_BODY = {frameset: 'div', frame: 'iframe', xmp: 'pre', listing: 'pre'};
  const HTML = 'http://www.w3.org/1999/xhtml';
  const foreign = globalThis.foreign = [];
  const parts = [], out = [];
  let nodes = 0, size = 0, cut = false;

  const put = text => { size += text.length; out.push(text); };
  const escaped = text => text.replace(/[&<>"\u00a0]/g, c =>
    ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\u00a0': '&nbsp;'})[c]);
  const absolute = (url, base) => { try { return new URL(url, base).href; } catch { return url; } };
  const is = (element, name) => element.localName === name && element.namespaceURI === HTML;

  function startTag(element, name) {
    let tag = '<' + name;
    for (const {name: key, value} of element.attributes) {
      if (/[\s"'<>/=\0]/.test(key)) continue;
      let text = value;
      if (URLS.includes(key) || key === 'xlink:href') text = absolute(value, element.baseURI);
      else if (key === 'srcset' || key === 'imagesrcset')
        text = value.replace(/(^|,\s)\s*([^\s,]\S*)/g, (_, before, url) => before + absolute(url, element.baseURI));
      else if (key === 'content' && is(element, 'meta') && /^refresh$/i.test(element.httpEquiv))
        text = value.replace(/^(\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?)(["']?)([^"']+)\2.*$/i,
          (_, before, quote, url) => before + absolute(url, element.baseURI));
      else if (key === 'srcdoc') continue;
      tag += ` ${key}="${escaped(text)}"`;
    }
    return tag + '>';
  }

  // What is to be written after this, the next last: nodes, and texts as they are.
  const waiting = [];
  const later = list => { for (let i = list.length - 1; i >= 0; i--) waiting.push(list[i]); };

  function children(element) {
    const root = element.shadowRoot;
    if (root) {
      const unseen = [...element.children].filter(child => !child.assignedSlot);
      return [...root.childNodes, ...(unseen.length ? ['<div hidden>', ...unseen, '</div>'] : [])];
    }
    if (is(element, 'slot') && element.assignedNodes().length) return element.assignedNodes();
    return [...element.childNodes];
  }

  function frame(element) {
    const inner = element.contentDocument;
    if (inner) later(inner.body ? ['<div>', ...inner.body.childNodes, '</div>'] : []);
    else if (element.contentWindow && foreign.length < bounds.frames) {
      foreign.push(element);
      put('<div>');
      parts.push(out.splice(0).join(''));
      put('</div>');
    }
  }

  function write(element) {
    const html = element.namespaceURI === HTML;
    let name = html ? element.localName : element.nodeName;
    if (/[\s/>\0]/.test(name) || !/^[a-z]/i.test(name)) name = 'div';
    if (name === 'script' && /^\s*application\/ld\+json\s*$/i.test(element.getAttribute('type') || '')) {
      put(startTag(element, name) + element.textContent.replace(/<(?=\/script|!--)/gi, '\\u003c') + '</script>');
      return;
    }
    if (LEFT_OUT.has(name.toLowerCase())) return;
    if (name === 'meta' && (element.hasAttribute('charset') || /^content-type$/i.test(element.httpEquiv))) return;
    if (html) name = IN_BODY[name] || name;
    if (element === document.body) name = 'body';
    put(startTag(element, name));
    if (html && VOID.has(name)) return;
    if (name === 'head') put('<meta charset="utf-8">');
    if (name === 'iframe') {
      put('</iframe>');
      frame(element);
      return;
    }
    if (/^(pre|textarea)$/.test(name) && /^\n/.test(element.firstChild?.data || '')) put('\n');
    waiting.push(`</${name}>`);
    if (is(element, 'textarea')) waiting.push(document.createTextNode(element.value));
    else later(children(element));
  }

  if (whole) put('<!DOCTYPE html>');
  later(whole ? [...document.children] : [...(document.body?.childNodes ?? [])]);
  while (waiting.length) {
    const next = waiting.pop();
    if (typeof next === 'string') put(next);
    else if (cut) continue;
    else if (++nodes > bounds.nodes || size > bounds.characters) cut = true;
    else if (next.nodeType === Node.TEXT_NODE || next.nodeType === Node.CDATA_SECTION_NODE) put(escaped(next.data));
    else if (next.nodeType === Node.ELEMENT_NODE) write(next);
  }
  parts.push(out.join(''));
  return {parts, cut, url: location.href};
}
