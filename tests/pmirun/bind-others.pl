# SPDX-License-Identifier: BSD-3-Clause
# bind-others.pl PMIRUN HYDRA MPIRUN: on machines that hwloc imagines, pmirun places ranks as mpiexec.hydra and Open MPI's mpirun do, except where the
# manual's table (BINDING) names a difference.
use strict;
use warnings;
use File::Temp qw(tempdir);

my ($pmirun, $hydra, $mpirun) = @ARGV;
my ($n, $failed) = (0, 0);
$ENV{TMPDIR} = tempdir(CLEANUP => 1); # mpirun leaves folders
$ENV{OMPI_ALLOW_RUN_AS_ROOT} = $ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} = 1;

sub output { # of a command, stderr too
    open my $out, '-|', 'sh', '-c', 'exec timeout 60 "$@" 2>&1', 'sh', @_ or die "sh: $!\n";
    local $/;
    my $text = <$out> // '';
    close $out;
    return $text;
}

# Each returns the picture of each rank; none: no binding, or the launcher refuses.
sub by_pmirun {
    my ($topology, $ranks, @options) = @_;
    my $text = output($pmirun, '--topology', $topology, '--report-bindings', @options, '-n', $ranks, 'true');
    return { $text =~ /rank (\d+) placed on .*: (\[\S+\]), processors/g };
}

sub by_hydra {
    my ($topology, $ranks, $skeleton, @options) = @_;
    local $ENV{HWLOC_SYNTHETIC} = $topology;
    local $ENV{HYDRA_TOPO_DEBUG} = 1;
    my %bits = output($hydra, @options, '-n', $ranks, 'true') =~ /process (\d+) binding: ([01]+)/g;
    for my $bits (values %bits) {
        my @bits = split //, $bits;
        ($bits = $skeleton) =~ s/[B.]/shift @bits ? 'B' : '.'/ge;
    }
    return \%bits;
}

sub by_mpirun {
    my ($topology, $ranks, @options) = @_;
    local $ENV{HWLOC_SYNTHETIC} = $topology;
    local $ENV{HWLOC_THISSYSTEM} = 1;
    return { output($mpirun, '--host', "localhost:$ranks", '--do-not-launch', '--display-map', @options, '-n', $ranks, 'true') =~ /Process rank: (\d+) Bound: \S.*?:(\[\S+\])/g };
}

sub text {
    my ($placed) = @_;
    return join ' ', map { "$_:$placed->{$_}" } sort { $a <=> $b } keys %$placed;
}

sub compare { # are they the same, or different, as expected?
    my ($what, $ours, $theirs, $same) = @_;
    $n++;
    return if (text($ours) eq text($theirs)) == $same;
    print "FAILED: $what:\n  pmirun ", text($ours), "\n  they   ", text($theirs), "\n";
    $failed = 1;
}

my @machines = (['package:2 numa:2 core:2 pu:2', 7], ['package:2 numa:1 core:32 pu:2', 9]);
for my $machine (@machines) {
    my ($topology, $ranks) = @$machine;
    for my $map (qw(slot socket numa core hwthread)) {
        for my $bind (qw(socket numa core hwthread)) {
            my @options = ('--map-by', $map, '--bind-to', $bind);
            my $ours = by_pmirun($topology, $ranks, @options);
            keys %$ours == $ranks or die "$topology: pmirun @options places ", scalar keys %$ours, " of $ranks ranks\n";
            compare("hydra @options on $topology", $ours, by_hydra($topology, $ranks, $ours->{0}, '-bind-to', $bind, $map eq 'slot' ? () : ('-map-by', $map)), 1);
            compare("mpirun @options on $topology", $ours, by_mpirun($topology, $ranks, @options), 1);
        }
    }
}

# The table of differences.
my ($topology) = @{$machines[0]};
my $picture = '[BB/../../..][../../../..]';
compare('hydra by socket alone', by_pmirun($topology, 4, '--map-by', 'socket'), by_hydra($topology, 4, $picture, '-map-by', 'socket'), 0);
compare('mpirun by socket alone', by_pmirun($topology, 4, '--map-by', 'socket'), by_mpirun($topology, 4, '--map-by', 'socket'), 1);
compare('hydra, neither', by_pmirun($topology, 4), by_hydra($topology, 4, $picture), 1);
compare('mpirun, neither', by_pmirun($topology, 4), by_mpirun($topology, 4), 0);
compare('hydra, to core alone', by_pmirun($topology, 7, '--bind-to', 'core'), by_hydra($topology, 7, $picture, '-bind-to', 'core'), 1);
compare('mpirun, to core alone', by_pmirun($topology, 7, '--bind-to', 'core'), by_mpirun($topology, 7, '--bind-to', 'core'), 0);
compare('hydra, 9 on 8 cores', by_pmirun($topology, 9, '--bind-to', 'core'), by_hydra($topology, 9, $picture, '-bind-to', 'core'), 0);
compare('mpirun, 9 on 8 cores', {}, by_mpirun($topology, 9, '--bind-to', 'core'), 1);
compare('hydra, 9 on 2 sockets', by_pmirun($topology, 9, '--bind-to', 'socket'), by_hydra($topology, 9, $picture, '-bind-to', 'socket'), 1);
compare('mpirun, 9 on 2 sockets', {}, by_mpirun($topology, 9, '--bind-to', 'socket'), 1);
compare('hydra, a list that ends', by_pmirun($topology, 2, '--bind-to', 'list:0+2,1'), by_hydra($topology, 3, $picture, '-bind-to', 'user:0+2,1'), 1);
compare('hydra, cores in pairs', by_pmirun($topology, 4, '--bind-to', 'core:2'), by_hydra($topology, 4, $picture, '-bind-to', 'core:2'), 1);
compare('mpirun, cores in pairs', by_pmirun($topology, 4, '--map-by', 'slot:PE=2'), by_mpirun($topology, 4, '--map-by', 'slot:PE=2'), 1);
print "$n placements\n";
exit $failed;
