/* Character references of HTML, such as &amp; and &#38;, and the characters that the input stream replaces. */

#ifndef CRAWLER_NATIVE_REFERENCES_H
#define CRAWLER_NATIVE_REFERENCES_H

#include <stdbool.h>
#include <stddef.h>

/* A byte can become three: U+0000 is replaced by U+FFFD. References never become longer than that. */
#define DECODED_GROWS 3

/* Whether any byte of the text means anything but itself. */
bool must_be_decoded(const char *text, size_t size);

/* Writes what the text means to out, which has room for DECODED_GROWS bytes for each of size, and returns its size.
 * With in_attribute, the rules for values of attributes hold. Writes no more once it has written `enough` bytes. */
size_t decode_references(const char *text, size_t size, char *out, size_t enough, bool in_attribute);

#endif
