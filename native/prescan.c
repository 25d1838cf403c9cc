/*
 * stated_encoding: what the `meta` elements at the beginning of a page say of its encoding, which has to be known
 * before the page is read. This is not what its tokens are: HTML Standard, 13.2.3.2, "prescan a byte stream".
 */

#include "module.h"

#include <stdbool.h>
#include <string.h>

#include "markup.h"

/* Behind "<!--"; a comment ends as those of XML do, or at once. */
static const char *
behind_comment(const char *at, const char *end)
{
    const char *first = at;
    while (at < end && (at = memchr(at, '>', (size_t)(end - at))) != NULL) {
        const char *dashes = at;
        while (dashes > first && at - dashes < 2 && dashes[-1] == '-') {
            dashes--;
        }
        at++;
        if (dashes == first || at - dashes == 3) {
            return at;
        }
    }
    return NULL;
}

static const char *
behind_tag(const char *at, const char *end)
{
    while (at < end && !is_space(*at) && *at != '>') {
        at++;
    }
    return read_attributes(at, end, NULL, NULL);
}

static bool
begins_meta(const char *at, const char *end)
{
    return end - at > 4 && is_word((struct text){at, 4}, "meta") && (is_space(at[4]) || at[4] == '/');
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
    struct text label = attributes->of[ATTRIBUTE_CHARSET], pragma = attributes->of[ATTRIBUTE_HTTP_EQUIV];
    struct text content = {NULL, 0};
    if (label.at == NULL) {
        content = attributes->of[ATTRIBUTE_CONTENT];
        if (content.at == NULL || pragma.at == NULL || !is_word(pragma, "content-type")) {
            return Py_NewRef(Py_None);
        }
    }
    PyObject *charset = as_latin(label), *text = as_latin(content), *name = NULL;
    if (charset != NULL && text != NULL) {
        name = PyObject_CallFunctionObjArgs(meaning, charset, text, NULL);
    }
    Py_XDECREF(charset);
    Py_XDECREF(text);
    return name;
}

static PyObject *
prescan(const char *at, const char *end, PyObject *meaning)
{
    while (at != NULL && at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL && ++at < end) {
        if (begins_meta(at, end)) {
            struct attributes attributes = {0};
            at = read_attributes(at + 4, end, &attributes, NULL);
            PyObject *name = at == NULL ? Py_NewRef(Py_None) : stated(&attributes, meaning);
            if (name == NULL || !Py_IsNone(name)) {
                return name;
            }
            Py_DECREF(name);
        }
        else if (end - at > 2 && memcmp(at, "!--", 3) == 0) {
            at = behind_comment(at + 3, end);
        }
        else if (is_letter(*at) || (*at == '/' && end - at > 1 && is_letter(at[1]))) {
            at = behind_tag(at, end);
        }
        else if (*at == '!' || *at == '/' || *at == '?') {
            at = memchr(at, '>', (size_t)(end - at));
        }
    }
    return Py_NewRef(Py_None);
}

PyDoc_STRVAR(stated_encoding_doc,
             "stated_encoding(head, meaning)\n"
             "--\n\n"
             "See crawler/_native.pyi.");

static PyObject *
stated_encoding(PyObject *module, PyObject *arguments)
{
    Py_buffer head;
    PyObject *meaning;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*O", &head, &meaning)) {
        return NULL;
    }
    const char *first = head.buf;
    PyObject *name = prescan(first, first + head.len, meaning);
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
