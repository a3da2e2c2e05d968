# Checks the checksum of an exported session: docs/export.md. It holds the whole document in memory.
import hashlib, json, sys

class Number(str):
    """A number as it is written."""

def canonical(value):
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join([canonical(k) + ":" + canonical(value[k]) for k in sorted(value)]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([canonical(v) for v in value]) + "]"
    return json.dumps(value, ensure_ascii=False)

sys.setrecursionlimit(10_000)  # metadata may nest 512 levels
with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file, parse_int=Number, parse_float=Number)
claimed = document.pop("checksum")
actual = "sha256:" + hashlib.sha256(canonical(document).encode()).hexdigest()
sys.exit(0 if actual == claimed else f"checksum is {actual}, the document says {claimed}")
