"""The views of the attention page, each a function that draws one."""
