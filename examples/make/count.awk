# Words, one on a line: the five most frequent as JSON; of two as frequent the first in the alphabet.
length($0) > 3 { n[$0]++ }
END {
	printf "["
	for (i = 0; i < 5; i++) {
		best = ""
		for (w in n)
			if (best == "" || n[w] > n[best] || (n[w] == n[best] && w < best))
				best = w
		if (best == "")
			break
		printf "%s[\"%s\",%d]", i ? "," : "", best, n[best]
		delete n[best]
	}
	print "]"
}
