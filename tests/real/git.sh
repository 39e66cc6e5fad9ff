# needs: git
# A repository of 150 commits: clone over a pipe, fsck, gc, log, merge, blame.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1 HOME=$PWD
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main origin
for i in $(seq 150); do
  printf 'commit refs/heads/main\nauthor a <a@b> %d +0000\ncommitter a <a@b> %d +0000\ndata 5\nc %03d\n' $((1700000000 + i)) $((1700000000 + i)) "$i"
  body=$(seq 1 $((i * 3))); printf 'M 100644 inline f%d\ndata %d\n%s\n\n' $((i % 17)) $((${#body} + 1)) "$body"
done | git -C origin fast-import --quiet
t git clone -q --no-local "file://$PWD/origin" copy
cd copy
t git fsck --full --strict
t git log --format=%H%s | sha256sum
t git gc -q --aggressive
git count-objects -v | grep -v size
t git checkout -q -b side HEAD~20
echo side >>new; t git add new; t git commit -q -m side
t git merge -q -m merge main
t git log --oneline --graph -n 5
t git blame f3 | sha256sum
t git bundle create -q ../b.bundle --all; git bundle verify -q ../b.bundle && echo bundle
t git rebase -q main 2>&1 | sed 's/[0-9a-f]\{7,\}/ID/'; git status -s | head
