"""Edge lists that are refused: what is wrong, in which line, and what to do."""

from pathlib import Path

import pytest

import rfp
from rfp.errors import GraphError
from tests.io.test_edge_list import parse


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "f.csv holds no edges"),
        ("\n# only a comment\n", {}, "f.csv holds no edges"),
        ("source,target\n", {}, "f.csv holds no edges"),
        ("# c\n0,1\n1,-2\n", {}, "f.csv, line 3: node id -2 is negative"),
        ("s,t,w\n0,1,1\n\n1,2,abc\n", {}, "f.csv, line 4: weight 'abc' is not a number"),
        ("0,1,1\n1,2,\n", {}, "f.csv, line 2: weight '' is not a number"),
        ("0 1 1\n1 2 nan\n", {}, "f.csv, line 2: weight nan is not finite"),
        ("0 1 1\n1 2 -inf\n", {}, "f.csv, line 2: weight -inf is not finite"),
        ("a,b\nb,\n", {}, "f.csv, line 2: a node id is empty"),
        ("0,1\n1,2,3\n", {}, "f.csv, line 2: 3 columns where the first line has 2"),
        ("0,1\n1\n", {}, "f.csv, line 2: 1 columns where the first line has 2"),
        ("0\n1\n", {}, "f.csv has 1 column; expected two"),
        ("0,1,2,3\n", {}, "f.csv has 4 columns"),
        ("0,1\n3,1\n", {"num_nodes": 3}, "f.csv, line 2: node id 3 is out of range for --num-nodes 3"),
        ("0,1\n1,a\n", {"num_nodes": 3}, "f.csv, line 2: node id 'a' is not a node number"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(GraphError) as error:
        parse(text, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(GraphError, match=r"f.csv, line 2: not text in UTF-8"):
        parse(b"a,b\nb,\xff\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # A quote that is not closed swallows lines in most readers.
        ('a,b\nb,"c\nc,d\nd","e"\n', "line 2: a quote that does not enclose a whole field"),
        ('a,b\nb,c"d\n', "line 2: a quote that does not enclose a whole field"),
        ('a b\nb "c"d\n', "line 2: a quote that does not enclose a whole field"),
        ("# x\n0;1,2\n", "line 2: both ; and , separate columns"),
        ("0 1,2\n", "line 1: '0 1' is several numbers in one column"),
        ("0 1\t5\n", "line 1: '0 1' is several numbers in one column"),
        ("ann,bob\n#jazz,ann\n", "line 2: '#jazz,ann' may be a comment or an edge; say --comment '#'"),
        ("%jazz,ann\nann,bob\nbob,cy\n", "line 1: '%jazz,ann' may be a comment or an edge"),
        ("0 1\n#1 2\n", "line 2: '#1 2' may be a comment or an edge"),
        ("#a,b\n#b,c\n", 'give --comment ""'),
        ("user,friend\nann,bob\nbob,cy\n", "line 1: 'user', 'friend' may be the names of columns or an edge"),
        ("0,1\n5,7\n7,9\n", "line 1: '0', '1' may be the names of columns or an edge"),
        ("0 1 1082040961\n1 2 1082040962\n", "line 1: the third column (1082040961 here) looks like times"),
        ("a,b,c\n0,1,5\n", "f.csv has 3 columns ('a', 'b', 'c'); expected two, or usual names"),
        ("id,user,friend\n0,5,7\n1,7,9\n", "has 3 columns ('id', 'user', 'friend')"),
        ("source,source,target\n0,1,2\n", "f.csv has 2 columns named 'source'"),
        ("0 2\n1 {}\n2 {}\n1 1\n2 {}\n2 0\n", "line 2: '{}' is no node id: it looks like a list"),
        ("0 1 {}\n1 2\n", "line 2: no dictionary at the end"),
        ("0 1 {}\n1 2 {a}\n", "line 2: '{a}' is not a dictionary"),
        ("a b {}\nb c {}\n {}\n", "line 3: a dictionary and no edge before it"),
        ("a b b c {}\n", "line 1: two ids are expected before the dictionary"),
        ("a b 5 {}\n", "line 1: two ids are expected before the dictionary"),
        ("a b c {'weight': 2}\n", "line 1: two ids are expected before the dictionary"),
        ("a b 5 {'weight': 2}\n", "line 1: two ids are expected before the dictionary"),
        ("0 1 {'weight': 'x'}\n", "line 1: weight 'x' is not a number"),
        ("0 1 0,5\n1 2 0.5\n", "line 1: weight '0,5' has a decimal comma, others a decimal point"),
        ("0,1\n1,\u00a02\n", "line 2: node id '\\xa02' holds a space that is not a blank"),
        ("0 1\n1\u30002 3\n", "line 2: node id '1\\u30002' holds a space that is not a blank"),
        ("a,b\nb,c\x0b\n", "line 2: node id 'c\\x0b' holds a control character"),
        ("a,b\nb,c\u0085d\n", "line 2: node id 'c\\x85d' holds a control character"),
        ("a,b\nb,c\u200b\n", "line 2: node id 'c\\u200b' holds a space that is not a blank"),
        ("0,1,\n1,2,x\n", "line 2: 'x' in a column that is empty in the first line"),
        ("0,1,\n1,2\n", "line 2: 2 columns where the first line has 3"),
        ("0,1\n1,2 3,4\n", "line 2: 3 columns where the first line has 2"),
        ("0 1 1_0\n", "line 1: weight '1_0' is not a number"),
        # An arrow between the ids, of which the second would be taken for a weight.
        ("0 -> 1\n1 -> 2\n", "line 1: '->' stands in column 2 of every line and numbers in the others; if those"),
        ("0 | 1\n1 | 2\n", "say --source 1 --target 3 --unweighted, if not, --weight 3"),
        ("5 → 7\n", "line 1: '→' stands in column 2"),
        ("e 1 2\ne 2 3\n", "line 1: 'e' stands in column 1 of every line"),
        ("e 1 2\ne 2 3\n", "say --source 2 --target 3 --unweighted"),
        # Two files with headers, joined end to end.
        ("source,target\n0,1\nsource,target\n1,2\n", "line 3: the names of the columns once more"),
        ("# from to\n0 1\n1 2\nfrom to\n", "line 4: the names of the columns once more"),
        # A missing id in a file of numbers is no node; nor are 1 and 1.0 two.
        ("0,1\n1,2\n2,nan\n", "line 3: node id 'nan' stands for a missing value, for all others are numbers"),
        ("0.0,1.0\n1.0,<NA>\n", "line 2: node id '<NA>' stands for a missing value"),
        ("NULL,1\n1,2\n", "line 1: node id 'NULL' stands for a missing value"),
        ("0,1\n1,2.0\n3.0,1\n", "line 2: node id '2.0' is a number with decimals and others have none"),
        ("0,1\n1,2e+00\n", "line 2: node id '2e+00' is a number with decimals"),
    ],
)
def test_what_may_be_read_in_two_ways_is_refused(text: str, message: str) -> None:
    with pytest.raises(GraphError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_nul_byte_is_no_text() -> None:
    with pytest.raises(GraphError, match=r"f.csv, line 2: a zero byte"):
        parse(b"0;1\n\0;2\n")


def test_every_byte_is_text_also_where_it_is_not_used() -> None:
    with pytest.raises(GraphError, match=r"f.csv, line 2: not text in UTF-8"):
        parse(b"0,1,1\n1,2,\xe9\n", unweighted=True)


def test_utf16_is_named() -> None:
    with pytest.raises(GraphError, match="text in UTF-16"):
        parse("0,1\n".encode("utf-16"))


@pytest.mark.parametrize("content", [b"0 1\n1 \x002\n", b'0,1,x\r"a",b,\0\r', b"\0" * 40])
def test_a_zero_byte_is_no_text(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "g.txt"
    path.write_bytes(content)
    line = 1 if content[0] == 0 else 2
    with pytest.raises(GraphError, match=rf"g\.txt, line {line}: a zero byte"):
        rfp.read_graph(path)
