(() => document.documentElement.outerHTML)()
