/*
 * scan_page: what a page says to a crawler, in one pass over its bytes.
 *
 * A page's links are what its tree says, and a tree costs many times what its tokens cost, whatever the page; a hostile
 * one makes it cost anything. But nearly always the tokens alone tell what would be in the tree, and in which order:
 * the builder changes that only in tables (tables.c), in drawings (foreign.c), in templates and in pages of frames. So
 * the page is cut into tokens as the standard says, with as much of the builder as these need. Where that is not
 * enough, the page is "undecided", and somebody else has to build the tree.
 *
 * What links lead on, and what the page says of itself, is not decided here but by the caller, who is given the few
 * elements that may matter (`other`). Only anchors, which are nearly all links, are added at once.
 */

#include "module.h"

#include <stdbool.h>
#include <string.h>

#include "anchor.h"
#include "foreign.h"
#include "markup.h"
#include "references.h"
#include "tables.h"

#define TITLES_MOST 16        /* as in crawler.web.links.extract: titles that are looked at ... */
#define TITLE_BYTES 65536     /* ... and what is read of one: more than is kept */
#define METAS_MOST 64         /* named ones that are kept */
#define ASKED_MOST 1000       /* elements that the caller is asked about: each takes as long as a hundred tags */
#define SMALL 512             /* bytes of a value that is decoded without asking for memory */

/* Nothing in a template belongs to the page. But its end tag forgets the open formatting elements up to the last marker
 * only, as the end tag of a cell does. If a marker is left in it, what stands before that may be copied into the page.
 */
struct template {
    size_t open;
    enum tag cell;            /* the cell or caption in it that is open, or TAG_OTHER */
    bool leaves_marker;
    bool has_link;
};

/* What is known of the page so far, and where the next token begins is an argument. A function that reads on returns
 * that place, or NULL if nothing is to be read any more: the page has ended, is undecided, or an exception is set. */
struct page {
    const char *end;
    const char *undecided;    /* why, if it is */
    PyObject *hrefs;          /* dict: the links */
    PyObject *other;          /* callable: (kind, href, rel, type) -> link or None */
    PyObject *embeds;         /* callable: (kind, first, second, rel), of what is embedded; None: not wanted */
    PyObject *texts;          /* dict: what is said of the links; None if that is not wanted */
    PyObject *describes;      /* callable: (kind, link, rel, left_out) -> where the text of the link belongs, or None */
    PyObject *metas;          /* list: (name, content) */
    PyObject *pragmas;        /* list: (http-equiv, content) */
    PyObject *title;
    PyObject *language;
    Py_ssize_t longest;       /* characters of a link that is added at once */
    Py_ssize_t most;          /* links, and one more */
    Py_ssize_t own;           /* links to the page itself that were left out */
    Py_ssize_t named_metas;
    size_t asked;             /* how often the caller was, or will be */
    size_t found;             /* how much the page has told: what is moved out of a table would be in another order */
    struct template template;
    const char *kind;         /* the element whose link is added ... */
    const struct attributes *attributes; /* ... and what it has */
    struct anchor anchor;
    struct paragraph paragraph; /* what is known of it where texts are wanted */
    size_t titles;
    bool keeps_own;
    bool respects_rel;
    bool has_base;
    bool has_language;
    struct tables tables;
    struct foreign foreign;
};

static const char *
give_up(struct page *page, const char *why)
{
    page->undecided = why;
    return NULL;
}

/* -- text ------------------------------------------------------------------------------------------------------- */

static struct text
stripped(struct text text)
{
    while (text.size > 0 && is_space(text.at[0])) {
        text.at++;
        text.size--;
    }
    while (text.size > 0 && is_space(text.at[text.size - 1])) {
        text.size--;
    }
    return text;
}

static PyObject *
as_str(struct text text)
{
    return PyUnicode_DecodeUTF8(text.at, (Py_ssize_t)text.size, "replace");
}

typedef PyObject *(*use_of_text)(struct page *page, struct text text);

/* What `use` makes of the text when it is decoded: of about as many bytes of it as are enough. */
static PyObject *
with_decoded(struct page *page, struct text text, size_t enough, bool in_attribute, use_of_text use)
{
    char small[DECODED_GROWS * SMALL], *room = small;
    if (!must_be_decoded(text.at, text.size)) {
        text.size = enough < text.size ? enough : text.size;
        return use(page, text);
    }
    if (text.size > SMALL) {
        size_t most = enough < text.size ? enough : text.size;
        room = PyMem_Malloc(DECODED_GROWS * (most + SMALL));
        if (room == NULL) {
            return PyErr_NoMemory();
        }
    }
    size_t size = decode_references(text.at, text.size, room, enough, in_attribute);
    PyObject *made = use(page, (struct text){room, size});
    if (room != small) {
        PyMem_Free(room);
    }
    return made;
}

static PyObject *
just_text(struct page *page, struct text text)
{
    (void)page;
    return as_str(text);
}

/* The value of an attribute; None if there is none. */
static PyObject *
value_of(struct page *page, const struct attributes *attributes, enum attribute place)
{
    if (attributes->of[place].at == NULL || (attributes->valued >> place & 1) == 0) {
        return Py_NewRef(Py_None);
    }
    return with_decoded(page, attributes->of[place], SIZE_MAX, true, just_text);
}

/* -- what is found ---------------------------------------------------------------------------------------------- */

/* Count what is told of the page. False if its place in the tree is another one than in the page. */
static bool
is_in_order(struct page *page)
{
    const struct tables *tables = &page->tables;
    if (is_moved_out(tables) && tables->of[tables->open - 1].found != page->found) {
        page->undecided = "table";
        return false;
    }
    page->found++;
    return true;
}

/* Count an element that the caller is asked about. False if there are too many: it would take too long. */
static bool
may_ask(struct page *page)
{
    if (page->asked++ < ASKED_MOST) {
        return true;
    }
    page->undecided = "elements";
    return false;
}

static bool
calls_other(struct page *page, const char *kind, PyObject *href, PyObject *rel, PyObject *type, PyObject **link)
{
    PyObject *name = PyUnicode_FromString(kind);
    if (name == NULL) {
        return false;
    }
    *link = PyObject_CallFunctionObjArgs(page->other, name, href, rel, type, NULL);
    Py_DECREF(name);
    return *link != NULL;
}

/* Collect the text of an anchor that begins here, for this key. Returns None, or NULL. */
static PyObject *
collect_text(struct page *page, PyObject *texts, PyObject *key)
{
    if (page->foreign.open > 0 || is_moved_out(&page->tables)) {
        page->undecided = "text";
        return NULL;
    }
    open_anchor(&page->anchor, texts, key, &page->paragraph);
    return Py_NewRef(Py_None);
}

/* Ask the caller to describe a link by more than its text. Returns None, or NULL. */
static PyObject *
ask_for_description(struct page *page, PyObject *link, bool left_out)
{
    PyObject *rel = may_ask(page) ? value_of(page, page->attributes, ATTRIBUTE_REL) : NULL;
    PyObject *kind = rel == NULL ? NULL : PyUnicode_FromString(page->kind), *texts = NULL, *none = NULL;
    if (kind != NULL) {
        PyObject *is_left_out = left_out ? Py_True : Py_False;
        texts = PyObject_CallFunctionObjArgs(page->describes, kind, link, rel, is_left_out, NULL);
    }
    if (texts != NULL) {
        none = Py_IsNone(texts) ? Py_NewRef(Py_None) : collect_text(page, texts, link);
    }
    Py_XDECREF(rel);
    Py_XDECREF(kind);
    Py_XDECREF(texts);
    return none;
}

/* Describe a link that was added just now. Returns None, or NULL. */
static PyObject *
describe(struct page *page, PyObject *link, Py_ssize_t size)
{
    Py_ssize_t fragment = PyUnicode_FindChar(link, '#', 0, size, 1);
    if (fragment == 0 || size == 0) {
        if (!page->has_base) { /* a copy of the element behind the base would be described */
            page->undecided = "text";
            return NULL;
        }
    }
    PyObject *key = fragment < 0 ? Py_NewRef(link) : PyUnicode_Substring(link, 0, fragment), *none = NULL;
    PyObject *empty = PyUnicode_FromStringAndSize("", 0);
    int is_known = key == NULL || empty == NULL ? -1 : PyDict_Contains(page->texts, key);
    if (is_known > 0) {
        none = Py_NewRef(Py_None);
    }
    else if (is_known == 0 && (strcmp(page->kind, "a") != 0 || page->attributes->of[ATTRIBUTE_REL].size > 0)) {
        none = ask_for_description(page, key, false);
    }
    else if (is_known == 0 && PyDict_SetItem(page->texts, key, empty) == 0) {
        none = collect_text(page, page->texts, key);
    }
    Py_XDECREF(key);
    Py_XDECREF(empty);
    return none;
}

/* Add a link that is short enough. Returns None, or NULL. */
static PyObject *
add_new_link(struct page *page, PyObject *link, Py_ssize_t size)
{
    Py_ssize_t before = PyDict_Size(page->hrefs);
    if (PyDict_SetItem(page->hrefs, link, Py_None) < 0) {
        return NULL;
    }
    /* What seemed to lead to the page itself before the base is described by the next link. */
    bool is_new = page->has_base || PyDict_Size(page->hrefs) > before;
    return Py_IsNone(page->texts) || !is_new ? Py_NewRef(Py_None) : describe(page, link, size);
}

/* Leave out a link to the page itself. Returns None, or NULL. */
static PyObject *
leave_out_own(struct page *page, size_t size)
{
    page->own++;
    if (!Py_IsNone(page->texts) && size > (size_t)page->longest) {
        page->undecided = "links"; /* that it was shortened is told together with the texts */
        return NULL;
    }
    return Py_NewRef(Py_None);
}

/* Add a link, which is stripped. Returns None, or NULL. */
static PyObject *
add_link(struct page *page, PyObject *link)
{
    Py_ssize_t size = PyUnicode_GetLength(link);
    if (!page->keeps_own && (size == 0 || PyUnicode_ReadChar(link, 0) == '#')) {
        return leave_out_own(page, (size_t)size);
    }
    if (size > page->longest || PyDict_Size(page->hrefs) > page->most) {
        PyObject *none = NULL;
        if (!may_ask(page) || !calls_other(page, "long", link, Py_None, Py_None, &none)) {
            return NULL;
        }
        Py_DECREF(none);
        return Py_NewRef(Py_None);
    }
    return add_new_link(page, link, size);
}

/* The href of an anchor, decoded. Most pages have many that lead into themselves: no object is made of these. */
static PyObject *
add_href(struct page *page, struct text href)
{
    href = stripped(href);
    if (!page->keeps_own && (href.size == 0 || href.at[0] == '#')) {
        return leave_out_own(page, href.size);
    }
    PyObject *link = as_str(href);
    if (link == NULL) {
        return NULL;
    }
    PyObject *none = add_link(page, link);
    Py_DECREF(link);
    return none;
}

/* Where the word is in the text, in any case; NULL if it is not. */
static const char *
find_word(struct text text, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++) {
        if (is_word((struct text){text.at + i, size}, word)) {
            return text.at + i;
        }
    }
    return NULL;
}

/* Whether a `rel` asks robots not to follow the link; -1 with an exception, or where the page is undecided. The caller
 * is asked where white space beyond that of ASCII may part its words. */
static int
says_nofollow(struct page *page, const struct attributes *attributes)
{
    struct text rel = attributes->of[ATTRIBUTE_REL];
    if (rel.at == NULL || (memchr(rel.at, '&', rel.size) == NULL && find_word(rel, "nofollow") == NULL)) {
        return 0;
    }
    if (is_word(stripped(rel), "nofollow")) {
        return 1;
    }
    PyObject *value = may_ask(page) ? value_of(page, attributes, ATTRIBUTE_REL) : NULL, *said = NULL;
    if (value == NULL || !calls_other(page, "a", Py_None, value, Py_None, &said)) {
        Py_XDECREF(value);
        return -1;
    }
    int says = Py_IsNone(said);
    Py_DECREF(value);
    Py_DECREF(said);
    return says;
}

/* Describe a link that is left out. Returns None, or NULL. */
static PyObject *
describe_left_out(struct page *page, struct text href)
{
    PyObject *link = as_str(stripped(href));
    PyObject *none = link == NULL ? NULL : ask_for_description(page, link, true);
    Py_XDECREF(link);
    return none;
}

static bool
found_anchor(struct page *page, const char *kind, const struct attributes *attributes)
{
    struct text href = attributes->of[ATTRIBUTE_HREF];
    if (href.at == NULL) {
        return true;
    }
    if (!is_in_order(page)) {
        return false;
    }
    int says = page->respects_rel ? says_nofollow(page, attributes) : 0;
    if (says < 0 || (says > 0 && Py_IsNone(page->texts))) {
        return says > 0;
    }
    if (page->anchor.texts != NULL) { /* in a drawing in an anchor */
        page->undecided = "text";
        return false;
    }
    page->kind = kind;
    page->attributes = attributes;
    PyObject *none = with_decoded(page, href, SIZE_MAX, true, says > 0 ? describe_left_out : add_href);
    Py_XDECREF(none);
    return none != NULL;
}

/* Ask the caller what an element leads to that is no anchor. */
static bool
found_other(struct page *page, const char *kind, const struct attributes *attributes, enum attribute target)
{
    if (!is_in_order(page) || !may_ask(page)) {
        return false;
    }
    PyObject *href = value_of(page, attributes, target);
    PyObject *rel = value_of(page, attributes, ATTRIBUTE_REL);
    PyObject *type = value_of(page, attributes, ATTRIBUTE_TYPE);
    PyObject *link = NULL, *none = NULL;
    page->kind = kind;
    page->attributes = attributes;
    if (href != NULL && rel != NULL && type != NULL && calls_other(page, kind, href, rel, type, &link)) {
        none = Py_IsNone(link) ? Py_NewRef(link) : add_link(page, link);
    }
    Py_XDECREF(href);
    Py_XDECREF(rel);
    Py_XDECREF(type);
    Py_XDECREF(link);
    Py_XDECREF(none);
    return none != NULL;
}

/* Whether a `link` element may be of those that lead on, canonical, or a license. Which they are, the caller decides. */
static bool
may_lead_on(const struct attributes *attributes)
{
    static const char *const relations[] = {"alternate", "canonical", "license", "next", "prev"};
    struct text rel = attributes->of[ATTRIBUTE_REL];
    if (attributes->of[ATTRIBUTE_HREF].at == NULL || rel.at == NULL) {
        return false;
    }
    if (memchr(rel.at, '&', rel.size) != NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
        if (find_word(rel, relations[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Add the pair of a value and the content of a `meta` to a list. */
static bool
append_meta(struct page *page, PyObject *list, const struct attributes *attributes, enum attribute place)
{
    PyObject *name = value_of(page, attributes, place), *content = NULL, *pair = NULL;
    if (name != NULL && !Py_IsNone(name)) {
        content = value_of(page, attributes, ATTRIBUTE_CONTENT);
        pair = content == NULL ? NULL : PyTuple_Pack(2, name, content);
    }
    bool done = name != NULL && (Py_IsNone(name) || (pair != NULL && PyList_Append(list, pair) == 0));
    Py_XDECREF(name);
    Py_XDECREF(content);
    Py_XDECREF(pair);
    return done;
}

static bool
found_meta(struct page *page, const struct attributes *attributes)
{
    if ((attributes->valued >> ATTRIBUTE_CONTENT & 1) == 0) {
        return true;
    }
    if ((attributes->valued >> ATTRIBUTE_NAME & 1) != 0 && page->named_metas < METAS_MOST) {
        page->named_metas++;
        if (!is_in_order(page) || !append_meta(page, page->metas, attributes, ATTRIBUTE_NAME)) {
            return false;
        }
    }
    struct text pragma = attributes->of[ATTRIBUTE_HTTP_EQUIV];
    if (pragma.at == NULL) {
        return true;
    }
    if (!is_word(pragma, "refresh") && !is_word(pragma, "content-language") &&
        !must_be_decoded(pragma.at, pragma.size)) {
        return true;
    }
    return is_in_order(page) && may_ask(page) && append_meta(page, page->pragmas, attributes, ATTRIBUTE_HTTP_EQUIV);
}

/* The language of the page is that of the first `html` that has one: the builder merges them. */
static bool
found_html(struct page *page, const struct attributes *attributes)
{
    if (page->has_language || attributes->of[ATTRIBUTE_LANG].at == NULL) {
        return true;
    }
    page->has_language = true;
    page->language = value_of(page, attributes, ATTRIBUTE_LANG);
    return page->language != NULL;
}

/* -- what is embedded ------------------------------------------------------------------------------------------- */

/* What an element may embed: its name, and the attributes that say so. */
struct embeds {
    enum tag tag;
    const char *kind;
    enum attribute target;
    enum attribute other; /* ATTRIBUTES: none */
};

static const struct embeds embedding[] = {
    {TAG_AUDIO, "audio", ATTRIBUTE_SRC, ATTRIBUTES},
    {TAG_EMBED, "embed", ATTRIBUTE_SRC, ATTRIBUTES},
    {TAG_IMG, "img", ATTRIBUTE_SRC, ATTRIBUTE_SRCSET},
    {TAG_INPUT, "input", ATTRIBUTE_SRC, ATTRIBUTE_TYPE},
    {TAG_LINK, "link", ATTRIBUTE_HREF, ATTRIBUTE_REL},
    {TAG_OBJECT, "object", ATTRIBUTE_DATA, ATTRIBUTES},
    {TAG_SCRIPT, "script", ATTRIBUTE_SRC, ATTRIBUTES},
    {TAG_SOURCE, "source", ATTRIBUTE_SRC, ATTRIBUTE_SRCSET},
    {TAG_TRACK, "track", ATTRIBUTE_SRC, ATTRIBUTES},
    {TAG_VIDEO, "video", ATTRIBUTE_SRC, ATTRIBUTE_POSTER},
};

static PyObject *
value_if_any(struct page *page, const struct attributes *attributes, enum attribute place)
{
    return place == ATTRIBUTES ? Py_NewRef(Py_None) : value_of(page, attributes, place);
}

static bool
asks_what_is_embedded(struct page *page, const struct embeds *element, const struct attributes *attributes)
{
    bool has_other = element->other != ATTRIBUTES && attributes->of[element->other].at != NULL;
    if (attributes->of[element->target].at == NULL && !has_other) {
        return true;
    }
    if (!is_in_order(page) || !may_ask(page)) {
        return false;
    }
    PyObject *kind = PyUnicode_FromString(element->kind), *none = NULL;
    PyObject *target = value_of(page, attributes, element->target);
    PyObject *other = value_if_any(page, attributes, element->other);
    PyObject *rel = value_of(page, attributes, ATTRIBUTE_REL);
    if (kind != NULL && target != NULL && other != NULL && rel != NULL) {
        none = PyObject_CallFunctionObjArgs(page->embeds, kind, target, other, rel, NULL);
    }
    Py_XDECREF(kind);
    Py_XDECREF(target);
    Py_XDECREF(other);
    Py_XDECREF(rel);
    Py_XDECREF(none);
    return none != NULL;
}

/* Ask the caller what an element embeds. False if nothing is to be read any more. */
static bool
found_embedding(struct page *page, enum tag tag, const struct attributes *attributes)
{
    if (tag == TAG_IMAGE && page->foreign.open == 0) {
        if (is_moved_out(&page->tables)) {
            page->undecided = "table"; /* Lexbor loses it there */
            return false;
        }
        tag = TAG_IMG; /* "Don't ask." (13.2.6.4.7) */
    }
    for (size_t i = 0; i < sizeof embedding / sizeof *embedding; i++) {
        if (embedding[i].tag == tag) {
            return asks_what_is_embedded(page, &embedding[i], attributes);
        }
    }
    return true;
}

/* -- elements without markup ------------------------------------------------------------------------------------ */

/* Go on behind the end tag that begins at `at`. */
static const char *
behind_end_tag(struct page *page, const char *at, size_t name)
{
    return at == NULL ? NULL : read_attributes(at + 2 + name, page->end, NULL, NULL);
}

static const char *
skip_raw(struct page *page, struct text name, const char *at)
{
    char lower[16];
    for (size_t i = 0; i < name.size && i < sizeof lower; i++) {
        lower[i] = (char)(name.at[i] | 0x20);
    }
    lower[name.size] = '\0';
    return behind_end_tag(page, find_end_tag(at, page->end, lower, name.size), name.size);
}

static const char *
read_title(struct page *page, const char *at)
{
    const size_t name = sizeof "title" - 1;
    const char *close = find_end_tag(at, page->end, "title", name);
    if (page->template.open == 0) {
        if (!is_in_order(page)) {
            return NULL;
        }
        if (page->titles++ < TITLES_MOST && page->title == NULL) {
            struct text text = {at, (size_t)((close == NULL ? page->end : close) - at)};
            page->title = with_decoded(page, text, TITLE_BYTES, false, just_text);
            if (page->title == NULL) {
                return NULL;
            }
        }
    }
    return behind_end_tag(page, close, name);
}

/* -- tags ------------------------------------------------------------------------------------------------------- */

/* What a start tag tells that counts wherever it is: in a drawing too. False if nothing is to be read any more. */
static bool
found_element(struct page *page, enum tag tag, const struct attributes *attributes)
{
    if (!Py_IsNone(page->embeds) && !found_embedding(page, tag, attributes)) {
        return false;
    }
    switch (tag) {
        case TAG_A: return found_anchor(page, "a", attributes);
        case TAG_AREA: return found_anchor(page, "area", attributes);
        case TAG_LINK: return !may_lead_on(attributes) || found_other(page, "link", attributes, ATTRIBUTE_HREF);
        case TAG_FRAME:
            return attributes->of[ATTRIBUTE_SRC].at == NULL || found_other(page, "frame", attributes, ATTRIBUTE_SRC);
        case TAG_IFRAME:
            return attributes->of[ATTRIBUTE_SRC].at == NULL || found_other(page, "iframe", attributes, ATTRIBUTE_SRC);
        default: return true;
    }
}

/* The first `base` with an href is that of the page. */
static bool
found_base(struct page *page, const struct attributes *attributes)
{
    if (page->has_base || attributes->of[ATTRIBUTE_HREF].at == NULL) {
        return is_in_order(page);
    }
    page->has_base = true;
    return found_other(page, "base", attributes, ATTRIBUTE_HREF);
}

/* What a start tag tells in HTML. */
static bool
found_html_element(struct page *page, enum tag tag, const struct attributes *attributes)
{
    switch (tag) {
        case TAG_BASE: return found_base(page, attributes);
        case TAG_FRAME: return true; /* there are none but in framesets */
        case TAG_HTML: return found_html(page, attributes);
        case TAG_META: return found_meta(page, attributes);
        default: return found_element(page, tag, attributes);
    }
}

/* A start tag inside of a drawing. */
static const char *
foreign_start_tag(struct page *page, struct text name, enum tag tag, const char *at)
{
    struct attributes attributes = {0};
    bool self_closing = false;
    if (is_html_again(&page->foreign, tag)) {
        return give_up(page, "foreign");
    }
    at = read_attributes(at, page->end, &attributes, &self_closing);
    if (at == NULL) {
        return NULL;
    }
    if (page->template.open == 0) {
        if (!found_element(page, tag, &attributes)) {
            return NULL;
        }
        page->titles += tag == TAG_TITLE;
    }
    if (!self_closing && !open_foreign(&page->foreign, name)) {
        return give_up(page, "depth");
    }
    return at;
}

/* The start tag of a drawing or a formula. */
static const char *
first_foreign_tag(struct page *page, struct text name, const char *at)
{
    bool self_closing = false;
    at = read_attributes(at, page->end, NULL, &self_closing);
    if (at != NULL && !self_closing) {
        open_foreign(&page->foreign, name);
    }
    return at;
}

static bool
parts_formatting(enum tag tag)
{
    return tag == TAG_MARKER || tag == TAG_OBJECT;
}

static bool
is_of_table(enum tag tag)
{
    switch (tag) {
        case TAG_CAPTION:
        case TAG_CELL_TD:
        case TAG_CELL_TH:
        case TAG_COLUMN:
        case TAG_COLUMNS:
        case TAG_ROW:
        case TAG_SECTION_BODY:
        case TAG_SECTION_FOOT:
        case TAG_SECTION_HEAD:
        case TAG_TABLE: return true;
        default: return false;
    }
}

/* Why a start tag cannot be understood where it is; NULL if it can. */
static const char *
is_too_much(struct page *page, enum tag tag)
{
    bool in_template = page->template.open > 0;
    if (tag == TAG_FRAMESET && !in_template) {
        return "frames"; /* it may take the place of all that came before it */
    }
    if (tag == TAG_COLUMN && in_template) {
        return "template"; /* one that holds columns may ignore what else is in it */
    }
    /* The end tag of a cell forgets the open formatting elements up to the last of these only, and those that are left
     * may be copied to a place in front of the table. */
    return parts_formatting(tag) && page->tables.open > 0 && !in_template ? "table" : NULL;
}

/* A start tag in a template. */
static void
template_holds(struct template *template, enum tag tag, const struct attributes *attributes)
{
    bool is_cell = tag == TAG_CAPTION || tag == TAG_CELL_TD || tag == TAG_CELL_TH;
    template->has_link = template->has_link || (tag == TAG_A && attributes->of[ATTRIBUTE_HREF].at != NULL);
    if (template->cell != TAG_OTHER && (is_cell || tag == TAG_TABLE || tag == TAG_TEMPLATE)) {
        template->leaves_marker = true; /* the end tag of the cell may count for nothing */
    }
    template->leaves_marker = template->leaves_marker || parts_formatting(tag);
    if (is_cell) {
        template->cell = tag;
    }
}

/* An end tag in a template. False if the template may have left something in the page. */
static bool
template_ends(struct page *page, enum tag tag)
{
    struct template *template = &page->template;
    if (tag == template->cell) {
        template->cell = TAG_OTHER;
    }
    if (tag != TAG_TEMPLATE) {
        return true;
    }
    template->open--;
    template->leaves_marker = template->leaves_marker || template->cell != TAG_OTHER;
    template->cell = TAG_OTHER;
    if (template->open > 0) {
        return true;
    }
    bool is_even = !template->leaves_marker || !(template->has_link || page->tables.open > 0);
    *template = (struct template){.cell = TAG_OTHER};
    return is_even;
}

static const char *
html_start_tag(struct page *page, struct text name, enum tag tag, const char *at)
{
    struct attributes attributes = {0};
    if ((tag == TAG_TABLE || parts_formatting(tag)) && page->template.open == 0) {
        hide_paragraph(&page->paragraph);
    }
    page->undecided = is_too_much(page, tag);
    if (page->undecided != NULL) {
        return NULL;
    }
    if (tag == TAG_SVG || tag == TAG_MATH) {
        return first_foreign_tag(page, name, at);
    }
    at = read_attributes(at, page->end, &attributes, NULL);
    if (at == NULL || (page->template.open == 0 && !found_html_element(page, tag, &attributes))) {
        return NULL;
    }
    if (page->template.open > 0) {
        template_holds(&page->template, tag, &attributes);
    }
    switch (tag) {
        case TAG_IFRAME:
        case TAG_RAW: return skip_raw(page, name, at);
        case TAG_SCRIPT: return behind_end_tag(page, find_end_of_script(at, page->end), name.size);
        case TAG_TITLE: return read_title(page, at);
        case TAG_PLAINTEXT: return NULL;
        case TAG_TEMPLATE: page->template.open++; return at;
        default: break;
    }
    if (is_of_table(tag) && page->template.open == 0 && !table_starts(&page->tables, tag, page->found)) {
        return give_up(page, "depth");
    }
    return at;
}

/* -- the text of anchors ---------------------------------------------------------------------------------------- */

static PyObject *
add_decoded(struct page *page, struct text text)
{
    if (!add_to_line(&page->anchor, text)) {
        page->undecided = "text";
        return NULL;
    }
    return Py_NewRef(Py_None);
}

/* Add what stands between two tokens in an anchor. False if nothing is to be read any more. */
static bool
add_text(struct page *page, const char *from, const char *to)
{
    struct text text = {from, (size_t)(to - from)};
    size_t left = ANCHOR_TEXT_READ - page->anchor.read;
    if (text.size == 0 || left == 0) {
        return true;
    }
    if (memchr(text.at, '\0', text.size) != NULL) { /* it is lost in HTML, and replaced in drawings */
        page->undecided = "text";
        return false;
    }
    PyObject *none = with_decoded(page, text, CHARACTER_BYTES * left, false, add_decoded);
    Py_XDECREF(none);
    return none != NULL;
}

/* A start tag in an anchor whose text is wanted. */
static const char *
start_tag_in_anchor(struct page *page, struct text name, enum tag tag, const char *at)
{
    switch (tag) {
        case TAG_IMG:
        case TAG_MATH:
        case TAG_SOURCE:
        case TAG_SVG: return html_start_tag(page, name, tag, at);
        default: break;
    }
    if (!open_in_anchor(&page->anchor, name)) {
        return give_up(page, "text");
    }
    return read_attributes(at, page->end, NULL, NULL);
}

/* An end tag in an anchor whose text is wanted; `at` is at its name. */
static const char *
end_tag_in_anchor(struct page *page, const char *at)
{
    struct text name = {at, 0};
    enum tag tag;
    at = read_name(at, page->end, false, &tag);
    name.size = (size_t)(at - name.at);
    if (tag != TAG_A && !close_in_anchor(&page->anchor, name)) {
        return give_up(page, "text");
    }
    at = read_attributes(at, page->end, NULL, NULL);
    if (at == NULL || tag != TAG_A) {
        return at;
    }
    int closed = close_anchor(&page->anchor);
    return closed > 0 ? at : closed < 0 ? NULL : give_up(page, "text");
}

/* -- any markup ------------------------------------------------------------------------------------------------- */

/* A start tag; `at` is at its name. */
static const char *
start_tag(struct page *page, const char *at)
{
    struct text name = {at, 0};
    enum tag tag;
    at = read_name(at, page->end, page->foreign.open > 0, &tag);
    name.size = (size_t)(at - name.at);
    if (page->foreign.open > 0) {
        return foreign_start_tag(page, name, tag, at);
    }
    if (page->anchor.texts != NULL) {
        return start_tag_in_anchor(page, name, tag, at);
    }
    if (tag == TAG_OTHER || tag == TAG_BREAKS_OUT) { /* nearly all */
        if (!Py_IsNone(page->texts) && page->template.open == 0 && may_matter(&page->paragraph, name)) {
            uint64_t number;
            paragraph_starts(&page->paragraph, name_in_anchor(name, &number));
        }
        return read_attributes(at, page->end, NULL, NULL);
    }
    return html_start_tag(page, name, tag, at);
}

/* Whether the end tag with the name at `at` is that of a paragraph. */
static bool
ends_paragraph(const char *at, const char *end)
{
    return (*at | 0x20) == 'p' && end - at > 1 && (at[1] == '>' || is_space(at[1]) || at[1] == '/');
}

/* An end tag; `at` is at its name. */
static const char *
end_tag(struct page *page, const char *at)
{
    if (page->anchor.texts != NULL && page->foreign.open == 0) {
        return end_tag_in_anchor(page, at);
    }
    if (page->foreign.open + page->template.open == 0 && ends_paragraph(at, page->end)) {
        page->paragraph.may_be_open = false;
    }
    if (page->foreign.open + page->template.open + page->tables.open == 0) { /* nearly all */
        return skip_tag(at, page->end);
    }
    struct text name = {at, 0};
    enum tag tag;
    at = read_name(at, page->end, page->foreign.open > 0, &tag);
    name.size = (size_t)(at - name.at);
    if (page->foreign.open > 0) {
        if (ends_foreign(name) || !close_foreign(&page->foreign, name)) {
            return give_up(page, "foreign");
        }
    }
    else if (page->template.open > 0) {
        if (!template_ends(page, tag)) {
            return give_up(page, "template");
        }
    }
    else if (is_of_table(tag)) {
        table_ends(&page->tables, tag);
    }
    return read_attributes(at, page->end, NULL, NULL);
}

static const char *
find_byte(struct page *page, const char *at, char byte)
{
    return at < page->end ? memchr(at, byte, (size_t)(page->end - at)) : NULL;
}

/* Behind "<!". */
static const char *
declaration(struct page *page, const char *at)
{
    size_t left = (size_t)(page->end - at);
    if (left >= 2 && memcmp(at, "--", 2) == 0) {
        return skip_comment(at + 2, page->end);
    }
    if (page->foreign.open > 0 && left >= 7 && memcmp(at, "[CDATA[", 7) == 0) {
        if (page->anchor.texts != NULL) {
            return give_up(page, "text");
        }
        for (at += 7; (at = find_byte(page, at, ']')) != NULL; at++) {
            if (page->end - at >= 3 && memcmp(at, "]]>", 3) == 0) {
                return at + 3;
            }
        }
        return NULL;
    }
    at = find_byte(page, at, '>');
    return at == NULL ? NULL : at + 1;
}

/* What begins behind a "<". */
static const char *
markup(struct page *page, const char *at)
{
    if (at == page->end) {
        return NULL;
    }
    if (is_letter(*at)) {
        return start_tag(page, at);
    }
    if (*at == '!') {
        return declaration(page, at + 1);
    }
    if (*at != '/' && *at != '?') {
        return page->anchor.texts == NULL || add_text(page, at - 1, at) ? at : NULL; /* text */
    }
    if (*at == '/' && at + 1 < page->end && is_letter(at[1])) {
        return end_tag(page, at + 1);
    }
    at = find_byte(page, *at == '/' ? at + 1 : at, '>'); /* a comment, or "</>", which is nothing */
    return at == NULL ? NULL : at + 1;
}

/* -- the page --------------------------------------------------------------------------------------------------- */

static void
read_page(struct page *page, const char *at)
{
    while (at != NULL) {
        const char *text = at;
        at = find_byte(page, at, '<');
        if (at != NULL) {
            bool is_read = page->anchor.texts == NULL || add_text(page, text, at);
            at = is_read ? markup(page, at + 1) : NULL;
        }
    }
    if (page->anchor.texts != NULL && page->undecided == NULL) {
        page->undecided = "text"; /* the page ends in an anchor */
    }
    /* With links into the page itself, which were left out, there might be one more than are taken. */
    if (page->own > 0 && PyDict_Size(page->hrefs) + page->own > page->most) {
        page->undecided = "links";
    }
}

static PyObject *
result(struct page *page)
{
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    if (page->undecided != NULL) {
        return PyUnicode_FromString(page->undecided);
    }
    PyObject *title = page->title == NULL ? Py_None : page->title;
    PyObject *language = page->language == NULL ? Py_None : page->language;
    return Py_BuildValue("(OOOOn)", page->metas, page->pragmas, title, language, page->own);
}

PyDoc_STRVAR(scan_page_doc,
             "scan_page(html, links, limits, choices, told)\n"
             "--\n\n"
             "Read a page in UTF-8; see crawler/_native.pyi.");

static PyObject *
scan_page(PyObject *module, PyObject *arguments)
{
    struct page page = {0};
    Py_buffer html;
    int keeps_own, respects_rel;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*(O!O)(nn)(pp)(OOO)", &html, &PyDict_Type, &page.hrefs, &page.texts,
                          &page.longest, &page.most, &keeps_own, &respects_rel, &page.other, &page.embeds,
                          &page.describes)) {
        return NULL;
    }
    page.end = (const char *)html.buf + html.len;
    page.keeps_own = keeps_own != 0;
    page.respects_rel = respects_rel != 0;
    page.metas = PyList_New(0);
    page.pragmas = PyList_New(0);
    if (page.metas != NULL && page.pragmas != NULL) {
        read_page(&page, html.buf);
    }
    PyObject *found = result(&page);
    PyBuffer_Release(&html);
    Py_XDECREF(page.metas);
    Py_XDECREF(page.pragmas);
    Py_XDECREF(page.title);
    Py_XDECREF(page.language);
    leave_anchor(&page.anchor);
    return found;
}

static PyMethodDef functions[] = {
    {"scan_page", scan_page, METH_VARARGS, scan_page_doc},
    {NULL, NULL, 0, NULL},
};

int
add_tokeniser(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
