"""A server on `fastmcp` with the skills of a folder, over stdio.

    skills_fastmcp.py <folder>
"""

import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

server = FastMCP("skills", version="1.0.0")
provider = SkillsDirectoryProvider(roots=Path(sys.argv[1]), experimental_skills=True)
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))

if __name__ == "__main__":
    server.run("stdio", show_banner=False, log_level="ERROR")
