#!/usr/bin/python3
"""Make the PDFs of the demo from src/*.txt and the manual pages. They are committed: this is only needed to change them.

Uses the standard fonts of every PDF reader; needs mandoc for the handbook and pdftoppm for the scanned pages.
In a text, `# ` and `## ` begin headings, empty lines part paragraphs, and a line `\\f` begins a new page.
"""
import glob, os, random, re, subprocess, sys, textwrap, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
A4 = (595, 842)


def pdf(pages):
    """A PDF of (content stream, resources, extra objects) per page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", None,
               b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding >>",
               b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Bold /Encoding /WinAnsiEncoding >>",
               b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>"]
    fonts = b"/Font << /F1 3 0 R /F2 4 0 R /F3 5 0 R >>"
    kids = []
    for content, image in pages:
        resources = fonts
        if image:
            objects.append(image)
            resources += b" /XObject << /Im %d 0 R >>" % len(objects)
        objects.append(stream(content, b""))
        objects.append(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R /Resources << %s >> >>"
                       % (*A4, len(objects), resources))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    out, at = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for n, body in enumerate(objects, 1):
        at.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, body)
    xref = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % a for a in at)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, xref)


def stream(data, head):
    data = zlib.compress(data, 9)
    return b"<< %s /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (head, len(data), data)


def show(font, size, x, y, line):
    line = re.sub(r"([\\()])", r"\\\1", line).encode("cp1252", "replace")
    return b"BT /%s %d Tf %d %d Td (%s) Tj ET\n" % (font, size, x, y, line)


def text_pages(name):
    pages = []
    for page in open(f"{HERE}/src/{name}.txt").read().split("\\f\n"):
        y, content = A4[1] - 90, b""
        for block in filter(None, page.split("\n\n")):
            block = block.strip("\n")
            font, size, wide = b"F1", 13, 68
            if block.startswith("#"):
                font, size, wide = b"F2", 20 - 4 * (block.startswith("##")), 44
            for line in textwrap.wrap(block.lstrip("# "), wide):
                content += show(font, size, 80, y, line)
                y -= int(size * 1.5)
            y -= 10
        assert y > 60, f"{name}: page too long"
        pages.append((content, None))
    return pages


def manual_pages():
    pages = []
    for page in sorted(glob.glob(f"{HERE}/../../man/*.[157]")):
        text = subprocess.run(["mandoc", "-Tutf8", "-Owidth=78", page], check=True, capture_output=True).stdout.decode()
        lines = re.sub(".\b", "", text).replace("\u2010", "-").replace("\u2212", "-").split("\n")
        for n in range(0, len(lines), 54):
            pages.append((b"".join(show(b"F3", 10, 60, A4[1] - 70 - 13 * i, line)
                                   for i, line in enumerate(lines[n:n + 54]) if line.strip()), None))
    return pages


def scanned(pages, dpi=150):
    """The same pages as pictures only."""
    out = []
    for n in range(len(pages)):
        pbm = subprocess.run(["pdftoppm", "-mono", "-r", str(dpi), "-f", str(n + 1), "-l", str(n + 1), "-"],
                             input=pdf(pages), check=True, capture_output=True).stdout
        wide, high, bits = re.match(rb"P4\s+(\d+)\s+(\d+)\s", pbm).group(1, 2, 0)
        head = (b"/Type /XObject /Subtype /Image /Width %s /Height %s /ColorSpace /DeviceGray /BitsPerComponent 1 /Decode [1 0]"
                % (wide, high))
        out.append((b"q %d 0 0 %d 0 0 cm /Im Do Q" % A4, stream(pbm[len(bits):], head)))
    return out


def damaged(whole, page, pages):
    """Random bytes over the middle of one page's content."""
    content = zlib.compress(pages[page][0], 9)
    at, size = whole.index(content), len(content)
    noise = random.Random(7).randbytes(size // 3)
    return whole[:at + size // 3] + noise + whole[at + size // 3 + len(noise):]


def write(name, data):
    with open(f"{HERE}/{name}.pdf", "wb") as f:
        f.write(data)


essay = text_pages("essay")
write("letter", pdf(text_pages("letter")))
write("on page order", pdf(text_pages("order")))
write("essay", pdf(essay))
write("minutes", pdf(text_pages("minutes")))
write("scan", pdf(scanned(text_pages("scan"))))
write("cut", pdf(essay)[:len(pdf(essay)) * 6 // 10])
write("damaged", damaged(pdf(essay), 2, essay))
write("handbook", pdf(manual_pages()))
