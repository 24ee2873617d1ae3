"""The node itself: processors, memory, disks, temperatures, cgroups, the kernel's log."""
