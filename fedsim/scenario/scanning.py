"""The scanner: ruamel.yaml's, by the letter of YAML 1.2 where it is of YAML 1.1."""

from ruamel.yaml.scanner import Scanner

_SPACES = "\0 \t\r\n\x85\u2028\u2029"
_ENDS = f"{_SPACES},[]{{}}"


class Scanner12(Scanner):
    """Takes the `?` of `{?x: 1}` for a part of the text, which the library writes so, too.

    YAML 1.2.2, section 7.3.3: a plain scalar may begin with `?` where neither a space nor, in
    flow style, an indicator follows. The library's own rule, that of YAML 1.1, drops it.
    """

    def check_key(self) -> bool:
        """Say whether the `?` at hand begins a key."""
        return self.reader.peek(1) in (_ENDS if self.flow_level else _SPACES)

    def check_plain(self) -> bool:
        """Say whether the character at hand begins a plain scalar."""
        if self.flow_level and self.reader.peek() == "?":
            return self.reader.peek(1) not in _ENDS
        return bool(super().check_plain())
