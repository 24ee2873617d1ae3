"""Which rank uses which GPU, joined from the kubelet, the ranks and the drivers."""
