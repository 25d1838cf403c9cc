/* Drawings and formulas in a page (SVG, MathML), where other rules hold: HTML Standard, 13.2.6.5. */

#ifndef CRAWLER_NATIVE_FOREIGN_H
#define CRAWLER_NATIVE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "markup.h"

#define FOREIGN_MOST 256 /* elements in each other */

struct foreign_element {
    struct text name;
    bool is_label;  /* what begins in it is HTML */
    bool in_label;  /* it, or one that it is in, has the name of a label, be that one of drawings or of formulas */
};

/* The open elements of the drawing or formula, the outermost first; none: the page is in HTML. */
struct foreign {
    size_t open;
    bool is_math;
    struct foreign_element of[FOREIGN_MOST];
};

/* Open an element. False: there are too many in each other, or its name is not to be compared with others. */
bool open_foreign(struct foreign *foreign, struct text name);

/* Close the element that an end tag names. False: none has that name, so that the rules of HTML decide. */
bool close_foreign(struct foreign *foreign, struct text name);

/* Whether what begins here is HTML again, or may be: in a label, or because the tag ends the drawing. */
bool is_html_again(const struct foreign *foreign, enum tag tag);

/* Whether an end tag of this name ends the drawing. */
bool ends_foreign(struct text name);

#endif
