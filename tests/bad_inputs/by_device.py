"""Data that say which device holds them: in one table, or in a folder."""

from bad_inputs.arrays import X, Y
from bad_inputs.rows import Content, Row, settings

ONE = {"x": X[:20], "y": Y[:20]}
ONE_CSV = "a,b,y\n" + "\n".join(f"{i},{-i},{i % 3}" for i in range(30)) + "\n"
TABLE_CSV = "device,a,b,y\n" + "\n".join(f"d{i % 3},{i},{-i},{i % 3}" for i in range(30)) + "\n"


def fleet(id: str, content: Content, *told: str, file: str = "f.npz", also: str = "") -> Row:
    """Data by device in a file, or in a folder if `file` lies in one."""
    place = file.partition("/")[0]
    given = ["rounds=2", "server.sampled=1", "data.dataset=devices", "data.split=given"]
    arguments = settings(*given, f"data.path={place}", *also.split())
    return Row(id, ("run", *arguments), told, {file: content})


def folder(id: str, files: dict[str, Content], *told: str, also: str = "") -> Row:
    first = fleet(id, "", *told, file="homes/any.csv", also=also)
    return Row(id, first.arguments, told, {f"homes/{name}": one for name, one in files.items()})
