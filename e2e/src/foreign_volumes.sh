# For a mount namespace of one's own: a copy of another test's data volume would keep that volume in use.
for folder in $(findmnt --raw --noheadings --types xfs --output TARGET,SOURCE | grep ' /dev/loop' | cut -d ' ' -f 1); do
    umount "$folder"
done
