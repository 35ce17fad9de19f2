"""The console: a page to watch and steer agents with. It is served from the package, and asks no other origin.

    from headwater.serve import create_app
    from headwater.web import console

    app = create_app([agent], page=console())

Needs the extra `headwater[serve]`.
"""

from headwater.web.page import CONTENT_SECURITY_POLICY, console

__all__ = ["CONTENT_SECURITY_POLICY", "console"]
