/* What the parts of crawler._native give to the module. */

#ifndef CRAWLER_NATIVE_MODULE_H
#define CRAWLER_NATIVE_MODULE_H

#include <Python.h>

/* Each part adds its functions and types to the module; -1 with an exception set if it cannot. */
int add_content(PyObject *module);
int add_prescan(PyObject *module);
int add_recent(PyObject *module);
int add_seen(PyObject *module);
int add_tokeniser(PyObject *module);

#endif
