"""`fastmcp`'s client of the skills extension: lists the skills, gets the entry of each, reads every file of its manifest and
checks size and digest. Prints the URIs of the skills and the number of files.

    fastmcp_skills.py <url> <key>
"""

import asyncio
import base64
import hashlib
import json
import sys
import warnings

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.skills.client import SkillsClientExtension

warnings.simplefilter("ignore")


def data(content) -> bytes:
    text = getattr(content, "text", None)
    return base64.b64decode(content.blob) if text is None else text.encode()


async def main(url: str, key: str) -> dict:
    files = 0
    async with Client(StreamableHttpTransport(url, auth=key), mode="auto", extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills()
        for skill in skills:
            assert await client.get_skill(skill.uri) == skill, f"the entry of {skill.uri} differs"
            for file in skill.resources:
                [content] = await client.read_resource(file.uri)
                assert str(content.uri) == file.uri, f"{file.uri} came back as {content.uri}"
                read = data(content)
                digest = "sha256:" + hashlib.sha256(read).hexdigest()
                assert (len(read), digest) == (file.size, file.digest), f"the content of {file.uri} differs"
                files += 1
    return {"skills": [skill.uri for skill in skills], "files": files}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
