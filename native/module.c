/*
 * crawler._native: the work that is done for each byte of a page and for each link.
 *
 * Each part has a file of its own and adds itself to the module here. All of them use the limited API of Python 3.11
 * only, so that one build serves every later version. None keeps any state between two calls but in the objects that it
 * makes.
 */

#include "module.h"

/* As in crawler/base/native.py: a module that was built from other sources is left alone. */
static int
add_interface(PyObject *module)
{
    return PyModule_AddIntConstant(module, "INTERFACE", 2);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_interface},
    {Py_mod_exec, add_content},
    {Py_mod_exec, add_prescan},
    {Py_mod_exec, add_recent},
    {Py_mod_exec, add_seen},
    {Py_mod_exec, add_tokeniser},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "crawler._native",
    .m_doc = "The parts of the crawler that are written in C.",
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
