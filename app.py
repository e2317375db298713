"""The app: ``streamlit run app.py``. Everything is in the frame and in ``pages/``."""

from transformer.webapp import frame

frame.run()
