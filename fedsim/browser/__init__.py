"""The page of a study in progress in a browser, served on this machine while its runs are made."""

from fedsim.browser.serving import open_browser, serve_page

__all__ = ["open_browser", "serve_page"]
