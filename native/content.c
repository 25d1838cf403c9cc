/*
 * content_digest: BLAKE2b of a page without its white space, in one pass. What is left of a few kilobytes of the page
 * is put together where it stays in the cache until it is hashed.
 */

#include "module.h"

#include <string.h>

#include "blake2b.h"

#define ROOM 4096 /* bytes of the page that are read at once */

static const uint8_t is_left_out[256] = {['\t'] = 1, ['\n'] = 1, ['\f'] = 1, ['\r'] = 1, [' '] = 1};

#define EACH 0x0101010101010101u

/* Copy the bytes that are no white space: eight at once, of which those up to the first that may be some are kept.
 * What a difference borrows reaches only bytes behind that one. */
static size_t
copy_words(const uint8_t *restrict from, size_t size, uint8_t *restrict to)
{
    size_t kept = 0, i = 0;
    while (i < size) {
        if (size - i > 8) {
            uint64_t word;
            memcpy(&word, from + i, 8);
            memcpy(to + kept, &word, 8);
            uint64_t low = (word - 0x21 * EACH) & ~word & 0x80 * EACH; /* bytes up to ' ' */
            size_t run = low ? (size_t)__builtin_ctzll(low) / 8 : 8;
            i += run;
            kept += run;
        }
        to[kept] = from[i];
        kept += !is_left_out[from[i++]];
        while (i < size && is_left_out[from[i]]) {
            i++;
        }
    }
    return kept;
}

static void
digest_words(const uint8_t *text, size_t size, uint8_t digest[BLAKE2B_DIGEST])
{
    Blake2b state;
    uint8_t room[ROOM + BLAKE2B_BLOCK];
    size_t held = 0;
    blake2b_begin(&state, NULL, 0);
    while (size > 0) {
        size_t part = size < ROOM ? size : ROOM;
        held += copy_words(text, part, room + held);
        text += part;
        size -= part;
        size_t blocks = held > 0 ? (held - 1) / BLAKE2B_BLOCK : 0; /* one is left, which may be the last */
        blake2b_take(&state, room, blocks);
        held -= blocks * BLAKE2B_BLOCK;
        memmove(room, room + blocks * BLAKE2B_BLOCK, held);
    }
    blake2b_digest(&state, room, held, digest);
}

PyDoc_STRVAR(content_digest_doc,
             "content_digest(body)\n"
             "--\n\n"
             "See crawler/_native.pyi.");

static PyObject *
content_digest(PyObject *module, PyObject *body)
{
    Py_buffer bytes;
    uint8_t digest[BLAKE2B_DIGEST];
    (void)module;
    if (PyObject_GetBuffer(body, &bytes, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    digest_words(bytes.buf, (size_t)bytes.len, digest);
    PyBuffer_Release(&bytes);
    return PyBytes_FromStringAndSize((const char *)digest, BLAKE2B_DIGEST);
}

static PyMethodDef functions[] = {
    {"content_digest", content_digest, METH_O, content_digest_doc},
    {NULL, NULL, 0, NULL},
};

int
add_content(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
