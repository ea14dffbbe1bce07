# The words of a text, one on a line.
s/[^[:alpha:]]\{1,\}/\n/g
s/.*/\L&/
