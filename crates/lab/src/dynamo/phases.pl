# Three kinds of work, one after the other, and the first again.
use strict;
my $n = shift // 1;
sub numbers { my ($s, $n) = (1, shift); for my $i (1 .. $n) { $s = ($s * 31 + $i) % 1000003; } $s }
sub words {
    my ($n, %h) = shift;
    for my $i (1 .. $n) {
        my $w = sprintf("%d-%x", $i % 977, $i % 31);
        $w =~ s/-([0-9a-f])/:$1/;
        $h{$w} .= substr($w, 0, 2);
        $h{$w} = '' if length $h{$w} > 40;
    }
    scalar keys %h
}
sub sorts {
    my ($n, $s) = (shift, 0);
    for my $k (1 .. $n) {
        my @a = map { ($_ * 7919 + $k) % 10007 } 1 .. 4000;
        @a = sort { $a <=> $b } @a;
        $s += join(',', reverse @a[1 .. 9]) =~ tr/,//;
    }
    $s
}
print numbers(6e6 * $n), "\n", words(4e5 * $n), "\n", sorts(60 * $n), "\n", numbers(1e6 * $n), "\n";
