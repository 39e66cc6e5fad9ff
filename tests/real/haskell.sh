# needs: pandoc
# packages: pandoc
# Code whose stack pointer is another register, and a runtime with a timer's signals.
for i in $(seq 60); do printf '# Part %s\n\nText *with* **marks** and `code`, a [link](http://x/%s).\n\n* one\n* two\n\n| a | b |\n|---|---|\n| 1 | %s |\n\n' "$i" "$i" "$i"; done >a.md
for to in html latex rst man json; do t pandoc -f markdown -t $to a.md | md5sum; done
t pandoc -f markdown -t html a.md | t pandoc -f html -t markdown | md5sum
t pandoc nothing.md 2>&1 || echo "status $?"
