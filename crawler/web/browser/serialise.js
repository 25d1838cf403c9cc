// The document of a frame as HTML, as it is seen: shadow roots and frames of its origin in place, URLs absolute, without
// scripts. It is run in an isolated world, whose built-ins the page cannot change.
//
// The value is {parts, cut, url}. Between two parts belongs the document of a frame of another origin, whose element is in
// `foreign`. Of such a frame only what its body holds is wanted: it is not `whole`. Of a frame whose links are not to be
// followed, by its own word or as one of `unfollowed`, only the text is wanted. No recursion, and bounds: a page may be
// as deep and as large as it likes.
(bounds, [whole, unfollowed]) => {
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
  // As a link of its document, whose encoding is that of queries.
  const absolute = (url, element) => {
    const link = element.ownerDocument.createElement('a');
    link.setAttribute('href', url);
    return link.href;
  };
  // A form may have fields that are called like these, and has them in their places.
  const own = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name)?.get;
    return node => get ? get.call(node) : node[name];
  };
  const [typeOf, nameOf, nodesOf, textOf] =
    ['nodeType', 'nodeName', 'childNodes', 'textContent'].map(name => own(Node, name));
  const [localOf, spaceOf, attributesOf, rootOf, childrenOf, slotOf] =
    ['localName', 'namespaceURI', 'attributes', 'shadowRoot', 'children', 'assignedSlot'].map(name => own(Element, name));
  const body = own(Document, 'body')(document);
  const is = (element, name) => localOf(element) === name && spaceOf(element) === HTML;

  function startTag(element, name) {
    let tag = '<' + name;
    for (const {name: key, value} of attributesOf(element)) {
      if (/[\s"'<>/=\0]/.test(key)) continue;
      let text = value;
      if (key === 'xlink:href' && localOf(element) === 'a' && !element.hasAttribute('href'))
        tag += ` href="${escaped(absolute(value, element))}"`;  // as which it is followed
      if (URLS.includes(key) || key === 'xlink:href') text = absolute(value, element);
      else if (key === 'srcset' || key === 'imagesrcset')
        text = value.replace(/(^|,\s)\s*([^\s,]\S*)/g, (_, before, url) => before + absolute(url, element));
      else if (key === 'content' && is(element, 'meta') && /^refresh$/i.test(element.httpEquiv))
        text = value.replace(/^(\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?)(["']?)([^"']+)\2.*$/i,
          (_, before, quote, url) => before + absolute(url, element));
      else if (key === 'srcdoc') continue;
      tag += ` ${key}="${escaped(text)}"`;
    }
    return tag + '>';
  }

  // What is to be written after this, the next last: nodes, and texts as they are.
  const waiting = [];
  const later = list => { for (let i = list.length - 1; i >= 0; i--) waiting.push(list[i]); };

  function children(element) {
    const root = rootOf(element);
    if (root) {
      const unseen = [...childrenOf(element)].filter(child => !slotOf(child));
      return [...root.childNodes, ...(unseen.length ? ['<div hidden>', ...unseen, '</div>'] : [])];
    }
    if (is(element, 'slot') && element.assignedNodes().length) return element.assignedNodes();
    return [...nodesOf(element)];
  }

  function inside(inner) {
    const robots = [...inner.querySelectorAll('meta[name=robots i]')].map(meta => meta.content).join();
    const text = unfollowed.includes(inner.URL.split('#')[0]) || /\b(nofollow|none)\b/i.test(robots);
    return text ? [escaped(inner.body.innerText)] : [...nodesOf(inner.body)];
  }

  function frame(element) {
    const inner = element.contentDocument;
    if (inner) later(inner.body ? ['<div>', ...inside(inner), '</div>'] : []);
    else if (element.contentWindow && foreign.length < bounds.frames) {
      foreign.push(element);
      put('<div>');
      parts.push(out.splice(0).join(''));
      put('</div>');
    }
  }

  function write(element) {
    const html = spaceOf(element) === HTML;
    let name = html ? localOf(element) : nameOf(element);
    if (/[\s/>\0]/.test(name) || !/^[a-z]/i.test(name)) name = 'div';
    if (name === 'script' && /^\s*application\/ld\+json\s*$/i.test(element.getAttribute('type') || '')) {
      put(startTag(element, name) + textOf(element).replace(/<(?=\/script|!--)/gi, '\\u003c') + '</script>');
      return;
    }
    if (LEFT_OUT.has(name.toLowerCase())) return;
    if (name === 'meta' && (element.hasAttribute('charset') || /^content-type$/i.test(element.httpEquiv))) return;
    if (html) name = IN_BODY[name] || name;
    if (element === body) name = 'body';
    put(startTag(element, name));
    if (html && VOID.has(name)) return;
    if (name === 'head') put('<meta charset="utf-8">');
    if (name === 'iframe' || (name === 'object' && element.contentWindow)) {
      put(`</${name}>`);
      frame(element);
      return;
    }
    if (/^(pre|textarea)$/.test(name) && /^\n/.test(element.firstChild?.data || '')) put('\n');
    waiting.push(`</${name}>`);
    if (is(element, 'textarea')) waiting.push(document.createTextNode(element.value));
    else later(children(element));
  }

  if (whole) put('<!DOCTYPE html>');
  later(whole ? [...nodesOf(document)] : body ? inside(document) : []);
  while (waiting.length) {
    const next = waiting.pop();
    if (typeof next === 'string') put(next);
    else if (cut) continue;
    else if (++nodes > bounds.nodes || size > bounds.characters) cut = true;
    else if (typeOf(next) === Node.TEXT_NODE || typeOf(next) === Node.CDATA_SECTION_NODE) put(escaped(next.data));
    else if (typeOf(next) === Node.ELEMENT_NODE) write(next);
  }
  parts.push(out.join(''));
  return {parts, cut, url: location.href};
}
