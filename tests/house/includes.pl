# SPDX-License-Identifier: BSD-3-Clause
# includes.pl <root>: where sources are in folders, includes go one way only, as this table has it. A file straight in the outer folder
# may include any.
use strict;
use warnings;
use File::Find;

my %below = ( # folder => the folders whose headers its files may include, besides its own
    'libpmiwire/src' => {
        base => [], codec => ['base'], client => ['codec', 'base'],
        exchange => ['codec', 'base'], server => ['exchange', 'codec', 'base'],
    },
    'libasymreg/src' => {
        base => [], index => ['base'], table => ['index', 'base'], local => ['base'], rma => ['local', 'table', 'index', 'base'],
    },
    'examples/pmirun' => { place => [], local => ['place'], options => ['local', 'place'], 
        multinode => ['local', 'place'] },
);

my %never = ( # the parts that decide, and headers of the parts that act, which they must not call
    'examples/pmirun' => { files => [qw(local/job.c local/job_end.c)],
        headers => [qw(launch.h pmi.h host.h spawn.h input.h signals.h guard.h rank_end.h mpi_detect.h)] },
);

my $root = shift or die "usage: includes.pl ROOT\n";
chdir $root or die "$root: $!\n";
my ($n, $wrong) = (0, 0);
sub wrong { print "FAILED: @_\n"; $wrong = 1; }

for my $outer (glob('lib*/src'), glob('examples/*')) {
    my %where; # file => folder
    find({ no_chdir => 1, wanted => sub { $where{$1} = $2 if /\.[ch]$/ && m{^\Q$outer\E/(([^/]+)/.+)} } }, $outer);
    next unless %where && ($outer =~ m{^lib} || $below{$outer});
    my $library = $outer =~ m{^lib([^/]+)} ? $1 : '';
    for my $file (sort keys %where) {
        my $mine = $where{$file};
        my $may = $below{$outer}{$mine};
        if (!$may) {
            wrong("$outer/$mine is not in the table of tests/house/includes.pl");
            next;
        }
        open my $in, '<', "$outer/$file" or die "$outer/$file: $!\n";
        while (<$in>) {
            my $folder;
            if (/^\s*#\s*include\s*"(?:.*\/)?([^"\/]+)"/) {
                my ($header) = $1; # names are unique below $outer
                ($folder) = map { $where{$_} } grep { m{/\Q$header\E$} } keys %where;
            } elsif ($library && m{^\s*#\s*include\s*<\Q$library\E(?:/(\w+))?\.h>}) {
                # A public header of the same name as a folder is that folder's; the library's own includes all.
                wrong("$outer/$file:$.: includes the whole library") unless defined $1;
                $folder = $1 if defined $1 && $below{$outer}{$1};
            }
            next unless defined $folder;
            $n++;
            wrong("$outer/$file:$.: includes a header of $folder/") unless grep { $_ eq $folder } $mine, @$may;
        }
    }
}
for my $outer (keys %never) {
    for my $file (@{ $never{$outer}{files} }) {
        open my $in, '<', "$outer/$file" or die "$outer/$file: $!\n";
        while (my $line = <$in>) {
            wrong("$outer/$file:$.: it decides, and includes a part that acts") if grep { $line =~ m{"(?:.*/)?\Q$_\E"} } @{ $never{$outer}{headers} };
        }
    }
}
$n > 0 or die "no include was found\n";
print "$n includes\n";
exit $wrong;
