# For a mount namespace of one's own: a copy of another test's data volume would keep that volume in use. The volume that has the
# path KEPT stays.
for folder in $(findmnt --raw --noheadings --types xfs --output TARGET,SOURCE | grep ' /dev/loop' | cut -d ' ' -f 1); do
    case ${KEPT:-} in
    "$folder"/*) ;;
    *) umount "$folder" ;;
    esac
done
