"""Random kills, signals, damage and full disks; ``make chaos`` runs them for some minutes."""
