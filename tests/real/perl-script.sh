# needs: perl
# Processes, pipes, sockets, signals, sorting and regular expressions from perl.
cat >script.pl <<'S'
use strict; use warnings; use IPC::Open3; use Socket; use POSIX qw(:sys_wait_h);
$| = 1;
my %sum; for my $n (1 .. 6) { my $pid = fork; if (!$pid) { my $s = 0; $s += $_ * $n for 1 .. 20000; exit($s % 251) } $sum{$pid} = $n }
my %got; while ((my $pid = waitpid(-1, 0)) > 0) { $got{$sum{$pid}} = $? >> 8 }
print join(" ", map { "$_=$got{$_}" } sort keys %got), "\n";
my $pid = open3(my $in, my $out, undef, "tr", "a-z", "A-Z"); print $in "through a pipe\n"; close $in; print <$out>; waitpid $pid, 0;
socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die; my $k = fork; if (!$k) { close $a; while (<$b>) { last if /end/; syswrite $b, uc $_ } exit 0 }
close $b; for my $w (qw(alpha beta gamma)) { syswrite $a, "$w\n"; print scalar <$a> } syswrite $a, "end\n"; waitpid $k, 0;
my $alarms = 0; local $SIG{ALRM} = sub { $alarms++ }; use Time::HiRes qw(ualarm usleep); ualarm(2000, 2000); my $x = 0; while ($alarms < 50) { $x++ } ualarm(0); print "alarms\n";
my $r = eval { local $SIG{ALRM} = sub { die "timeout\n" }; alarm 1; select undef, undef, undef, 5; 1 }; print $r ? "no\n" : $@;
my $t = join "", map { chr(97 + $_ * 7 % 26) } 1 .. 5000; my $n = 0; $n++ while $t =~ /([aeiou])([^aeiou]+)\1?/g; print "$n\n";
print system("sh", "-c", "exit 5") >> 8, " ", system("kill -9 \$\$") & 127, " ", `echo back; echo ticks`;
exec "echo", "exec'ed";
S
t perl script.pl
