"""Text as LaTeX sets it."""

from __future__ import annotations

# What LaTeX reads as commands, and what pdflatex has no letter for.
_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{letter: rf"\{letter}" for letter in "&%$#_{}"},
        **{letter: f"${letter}$" for letter in "<>|"},
        "₁": "$_1$",
        "₂": "$_2$",
        "²": "$^2$",
        "°": r"$^\circ$",
        "±": r"$\pm$",
        "≥": r"$\ge$",
        "α": r"$\alpha$",  # noqa: RUF001
        "β": r"$\beta$",
        "κ": r"$\kappa$",
        "μ": r"$\mu$",
        "σ": r"$\sigma$",  # noqa: RUF001
        "ω": r"$\omega$",
        "…": r"\ldots{}",
        "→": r"$\to$",
        "–": "--",  # noqa: RUF001
        "−": "$-$",  # noqa: RUF001
    }
)


def escaped(text: str) -> str:
    """``text`` with nothing in it that LaTeX would read as a command or could not set."""
    return text.translate(_TEX)
