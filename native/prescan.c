/*
 * stated_encoding: what the `meta` elements at the beginning of a page say of its encoding, which has to be known
 * before the page is read. As in Blink and WebKit, these are the tokens of the first bytes and of the rest of the head.
 * The prescan of the HTML Standard (13.2.3.2) sees tags in scripts, too, and the standard reads a page again for a
 * `meta` behind it.
 */

#include "module.h"

#include <stdbool.h>
#include <string.h>

#include "markup.h"

/* Elements that leave the page in its head; so do the start tags of those below. Any other tag ends it. */
static const char *const of_head[] = {"base", "link", "meta", "noscript", "object", "script", "style", "title", NULL};
static const char *const opens_head[] = {"html", "head", NULL};
/* Elements that hold no markup, but for scripts. */
static const char *const raw[] = {"iframe", "noembed", "noframes", "style", "textarea", "title", "xmp", NULL};

/* The word of the list that the text is, in any case; NULL if it is none. */
static const char *
word_of(const char *const *list, struct text text)
{
    while (*list != NULL && !is_word(text, *list)) {
        list++;
    }
    return *list;
}

static PyObject *
as_latin(struct text text)
{
    return text.at == NULL ? Py_NewRef(Py_None) : PyUnicode_DecodeLatin1(text.at, (Py_ssize_t)text.size, NULL);
}

/* What a `meta` states; None if nothing. */
static PyObject *
stated(const struct attributes *attributes, PyObject *meaning)
{
    const struct text *of = attributes->of;
    if (of[ATTRIBUTE_CHARSET].at == NULL && (of[ATTRIBUTE_HTTP_EQUIV].at == NULL || of[ATTRIBUTE_CONTENT].at == NULL)) {
        return Py_NewRef(Py_None);
    }
    PyObject *label = as_latin(of[ATTRIBUTE_CHARSET]), *pragma = as_latin(of[ATTRIBUTE_HTTP_EQUIV]);
    PyObject *content = as_latin(of[ATTRIBUTE_CONTENT]), *name = NULL;
    if (label != NULL && pragma != NULL && content != NULL) {
        name = PyObject_CallFunctionObjArgs(meaning, label, pragma, content, NULL);
    }
    Py_XDECREF(label);
    Py_XDECREF(pragma);
    Py_XDECREF(content);
    return name;
}

/* Behind the text of an element that begins here. */
static const char *
behind_raw_text(struct text name, const char *at, const char *end)
{
    const char *word = word_of(raw, name);
    if (word != NULL) {
        return find_end_tag(at, end, word, name.size);
    }
    if (is_word(name, "script")) {
        return find_end_of_script(at, end);
    }
    return is_word(name, "plaintext") ? NULL : at;
}

static PyObject *
prescan(const char *first, const char *end, Py_ssize_t anywhere, PyObject *meaning)
{
    const char *at = first;
    bool in_head = true;
    while (at != NULL && at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL && ++at < end) {
        if (!in_head && at - first > anywhere) {
            break;
        }
        bool begins = is_letter(*at);
        if (begins || (*at == '/' && end - at > 1 && is_letter(at[1]))) {
            struct text name = {begins ? at : at + 1, 0};
            struct attributes attributes = {0};
            enum tag tag;
            at = read_name(name.at, end, false, &tag);
            name.size = (size_t)(at - name.at);
            in_head = in_head && (word_of(of_head, name) != NULL || (begins && word_of(opens_head, name) != NULL));
            at = read_attributes(at, end, &attributes, NULL);
            if (at != NULL && begins && tag == TAG_META) {
                PyObject *encoding = stated(&attributes, meaning);
                if (encoding == NULL || !Py_IsNone(encoding)) {
                    return encoding;
                }
                Py_DECREF(encoding);
            }
            at = at != NULL && begins ? behind_raw_text(name, at, end) : at;
        }
        else if (end - at > 2 && memcmp(at, "!--", 3) == 0) {
            at = skip_comment(at + 3, end);
        }
        else if (*at == '!' || *at == '/' || *at == '?') {
            at = memchr(at, '>', (size_t)(end - at));
        }
    }
    return Py_NewRef(Py_None);
}

PyDoc_STRVAR(stated_encoding_doc,
             "stated_encoding(head, anywhere, meaning)\n"
             "--\n\n"
             "See crawler/_native.pyi.");

static PyObject *
stated_encoding(PyObject *module, PyObject *arguments)
{
    Py_buffer head;
    Py_ssize_t anywhere;
    PyObject *meaning;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*nO", &head, &anywhere, &meaning)) {
        return NULL;
    }
    const char *first = head.buf;
    PyObject *name = prescan(first, first + head.len, anywhere, meaning);
    PyBuffer_Release(&head);
    return name;
}

static PyMethodDef functions[] = {
    {"stated_encoding", stated_encoding, METH_VARARGS, stated_encoding_doc},
    {NULL, NULL, 0, NULL},
};

int
add_prescan(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
