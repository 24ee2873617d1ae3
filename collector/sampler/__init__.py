"""Every source is read at its pace; what each last said is kept."""
